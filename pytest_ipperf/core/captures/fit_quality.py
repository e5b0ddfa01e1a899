"""How well a model fits: packets that the engines' schedule makes of it, beside those of the capture.

The Kolmogorov-Smirnov distance is the largest difference of the two empirical distribution functions. It is a number
about the fit, not a test: with enough packets every model of real traffic fails a test.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_ipperf.core.captures.fit import RESOLUTION_S, CapturedStream
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.core.portable.traffic.schedule import packets
from pytest_ipperf.core.stats.percentile import percentile

_SHARES = (0.5, 0.95, 0.99)
_MOST_PACKETS = 200_000
_FEWEST_PACKETS = 1000
"""Fewest packets that are made, also of a short capture, so that chance is not what is seen."""
_MEMORY = 0.2
"""Correlation of successive values from which a note says that the model has none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure of the capture and that of the model's packets, in `unit`."""

    name: str
    unit: str
    captured: float
    modelled: float


@dataclass(frozen=True, slots=True)
class FitQuality:
    """Fit of one stream: its figures, the distances of its sizes and intervals, and what the model lacks."""

    name: str
    rows: tuple[Compared, ...]
    size_distance: float
    interval_distance: float
    notes: tuple[str, ...]


def fit_quality(model: TrafficModel, captured: CapturedStream, seed: str) -> FitQuality:
    """Return how well the stream of that direction fits, by packets drawn with `seed`."""
    mean_s = captured.duration_s / len(captured.intervals_s)
    wanted = min(_MOST_PACKETS, max(_FEWEST_PACKETS, len(captured.sizes)))
    drawn = list(packets(model, captured.name, 1, seed, least_bytes=0, until_s=wanted * mean_s))
    sizes, intervals = [each.size_bytes for each in drawn], [b.due_s - a.due_s for a, b in pairwise(drawn)]
    both = (captured.intervals_s, intervals)
    rows = (
        *_rates(captured.sizes, captured.intervals_s, sizes, intervals),
        *_figures("size", "bytes", captured.sizes, sizes),
        *_figures("interval", "s", captured.intervals_s, intervals),
    )
    return FitQuality(
        name=captured.name,
        rows=rows,
        size_distance=ks_distance(captured.sizes, sizes),
        interval_distance=ks_distance(*([round(each / RESOLUTION_S) for each in of] for of in both)),
        notes=tuple(_notes(captured)),
    )


def ks_distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sample Kolmogorov-Smirnov distance."""
    from scipy.stats import ks_2samp  # noqa: PLC0415 - takes most of a second

    return float(ks_2samp(one, other, method="asymp").statistic)


def _rates(
    sizes: Sequence[int], intervals_s: Sequence[float], drawn: Sequence[int], drawn_s: Sequence[float]
) -> list[Compared]:
    lasts_s, drawn_lasts_s = math.fsum(intervals_s), math.fsum(drawn_s)
    return [
        Compared("packets", "packet/s", len(intervals_s) / lasts_s, len(drawn_s) / drawn_lasts_s),
        Compared("payload", "bit/s", 8 * sum(sizes[1:]) / lasts_s, 8 * sum(drawn[1:]) / drawn_lasts_s),
    ]


def _figures(name: str, unit: str, values: Sequence[float], drawn: Sequence[float]) -> list[Compared]:
    mean = Compared(f"{name}, mean", unit, statistics.fmean(values), statistics.fmean(drawn))
    shares = ((f"{name}, p{100 * share:g}", share) for share in _SHARES)
    return [
        mean,
        *(Compared(word, unit, percentile(values, share), percentile(drawn, share)) for word, share in shares),
    ]


def _notes(captured: CapturedStream) -> list[str]:
    notes = []
    for name, values in (("intervals", captured.intervals_s), ("sizes", captured.sizes)):
        found = correlation(values)
        if abs(found) >= _MEMORY:
            notes.append(f"successive {name} are correlated ({found:+.2f}); those of the model are independent")
    if captured.repeated:
        notes.append(f"{captured.repeated} segments with nothing new (retransmissions) are left out")
    return notes


def correlation(values: Sequence[float]) -> float:
    """Return the correlation of successive values (lag 1); 0 for values that do not vary."""
    if len(values) < 3:
        return 0.0
    mean = statistics.fmean(values)
    total = math.fsum((each - mean) ** 2 for each in values)
    return math.fsum((a - mean) * (b - mean) for a, b in pairwise(values)) / total if total else 0.0
