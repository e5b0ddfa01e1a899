"""Link-rate check: the goodput that links with a rate allow, their measured rate, and the goodput of an arm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s
from pytest_ipperf.core.measurement.run import Run

TOLERANCE = 0.01
"""A path whose rate is further off than this share is not the path that was asked for."""

TrainRates = Mapping[str, float | None]
"""The rate of a path in bit/s that trains of datagrams had, by the host that sent them; None where none came through.

Empty where none was sent.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """An arm on links of `rate_bit_s`.

    `ceiling_bit_s` is the highest goodput that they allow. `goodput_bit_s` is the content that the completed
    connections moved in the time that the bursts took, warm-ups left out; None where connections arrived at a rate of
    their own, or nobody counted what they moved. `path_bit_s` is the
    slowest that trains were, of all epochs and both directions: 0 where none came through, None where none was sent.
    """

    rate_bit_s: float
    ceiling_bit_s: float
    goodput_bit_s: float | None
    path_bit_s: float | None

    @property
    def too_slow(self) -> bool:
        """Whether the path was slower than asked for, so that its figures are those of another path."""
        return self.path_bit_s is not None and below_rate(self.rate_bit_s, self.path_bit_s)


def link_rate(
    rate_bit_s: float, overhead: HeaderOverhead, runs: Iterable[Run], trains: Iterable[TrainRates]
) -> LinkRate | None:
    """Check an arm's runs and the trains of its epochs against the links' rate; None on links without one."""
    if not rate_bit_s:
        return None
    own = [run.client for run in runs if not run.warmup and run.client is not None]
    wall_s = [client.wall_s for client in own if client.wall_s is not None]
    moved_bytes = [client.content_bytes for client in own if client.content_bytes is not None]
    known = len(wall_s) == len(moved_bytes) == len(own) and sum(moved_bytes) > 0 and sum(wall_s) > 0
    seen = [found or 0.0 for each in trains for found in each.values()]
    return LinkRate(
        rate_bit_s=rate_bit_s,
        ceiling_bit_s=ceiling_bit_s(rate_bit_s, overhead),
        goodput_bit_s=8 * sum(moved_bytes) / sum(wall_s) if known else None,
        path_bit_s=min(seen, default=None),
    )


def below_rate(rate_bit_s: float, seen_bit_s: float) -> bool:
    """Whether a path misses its rate."""
    return seen_bit_s < (1 - TOLERANCE) * rate_bit_s


def above_rate(rate_bit_s: float, seen_bit_s: float) -> bool:
    """Whether a path exceeds its rate."""
    return seen_bit_s > (1 + TOLERANCE) * rate_bit_s
