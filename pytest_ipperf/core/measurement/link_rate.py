"""Link-rate check: the goodput that links with a rate allow, their measured rate, and the goodput of an arm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.token_bucket import bucket_bytes

TOLERANCE = 0.01
"""Largest relative deviation from the requested rate; a path beyond it is a different path."""

TrainRates = Mapping[str, float | None]
"""Rate of a path in bit/s measured by packet trains, by the sending host; None if no train arrived.

Empty if no train was sent.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """The rates of an arm on links of `rate_bit_s`.

    `ceiling_bit_s` is the highest goodput that they allow, the token bucket that each burst finds full included.
    `goodput_bit_s` is the content that the completed connections moved in the duration of the bursts, without warm-ups;
    None if connections arrived at a rate of their own, or their content was not counted. `path_bit_s` is the rate of
    the slowest packet train in all epochs and both directions: 0 if one did not arrive, None if none was sent.
    """

    rate_bit_s: float
    ceiling_bit_s: float
    goodput_bit_s: float | None
    path_bit_s: float | None

    @property
    def too_slow(self) -> bool:
        """Return whether the path was slower than requested, so that its figures describe a different path."""
        return self.path_bit_s is not None and below_rate(self.rate_bit_s, self.path_bit_s)


def link_rate(
    rate_bit_s: float, overhead: HeaderOverhead, runs: Iterable[Run], trains: Iterable[TrainRates], connections: int
) -> LinkRate | None:
    """Check an arm's runs and the trains of its epochs against the links' rate; return None on links without a rate.

    A burst of the runs has so many `connections`.
    """
    if not rate_bit_s:
        return None
    counted = [run for run in runs if not run.warmup and run.client is not None]
    clients = [run.client for run in counted if run.client is not None]
    wall_s = [client.wall_s for client in clients if client.wall_s is not None]
    moved_bytes = [client.content_bytes for client in clients if client.content_bytes is not None]
    known = len(wall_s) == len(moved_bytes) == len(clients) and sum(moved_bytes) > 0 and sum(wall_s) > 0
    bursts = sum(run.attempted for run in counted) / connections
    at_once_bit_s = 8 * bursts * bucket_bytes(rate_bit_s) / sum(wall_s) if known else 0.0
    rates = [rate or 0.0 for each in trains for rate in each.values()]
    return LinkRate(
        rate_bit_s=rate_bit_s,
        ceiling_bit_s=ceiling_bit_s(rate_bit_s + at_once_bit_s, overhead),
        goodput_bit_s=8 * sum(moved_bytes) / sum(wall_s) if known else None,
        path_bit_s=min(rates, default=None),
    )


def below_rate(rate_bit_s: float, seen_bit_s: float) -> bool:
    """Return whether a path's rate is below `rate_bit_s` by more than the tolerance."""
    return seen_bit_s < (1 - TOLERANCE) * rate_bit_s


def above_rate(rate_bit_s: float, seen_bit_s: float) -> bool:
    """Return whether a path's rate is above `rate_bit_s` by more than the tolerance."""
    return seen_bit_s > (1 + TOLERANCE) * rate_bit_s
