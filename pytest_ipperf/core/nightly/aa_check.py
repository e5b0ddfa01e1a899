"""Check the environment by comparisons without a true difference (A/A).

The reference is measured twice, once under the name of its twin. A 95 % interval then excludes 0 in one case of twenty;
if many more do, something other than the networks causes differences here.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import t_interval

# 1 in 1000, rounded: 4 of 10 cells, with a probability of 0.00103, still count as rare.
_RARE = 0.00105


@dataclass(frozen=True, slots=True, kw_only=True)
class AACheck:
    """Number of twin `cells`, how many of their intervals exclude 0, and the most that chance explains (`at_most`)."""

    cells: int
    excludes: int
    at_most: int
    confidence: float

    @property
    def stable(self) -> bool:
        """Return whether the session's other differences can be believed."""
        return self.excludes <= self.at_most

    @property
    def can_fail(self) -> bool:
        """Return whether chance explains fewer than all cells; otherwise the check shows nothing."""
        return self.at_most < self.cells

    @property
    def fewest(self) -> int:
        """Fewest cells with which the check can fail."""
        cells = itertools.count(1)
        return next(count for count in cells if by_chance(count, 1 - self.confidence) < count)


def by_chance(cells: int, share: float) -> int:
    """Return the largest plausible count among `cells` that each occur with probability `share`.

    Larger counts have a probability of 1 in 1000, by the binomial distribution of cells that are measured one after the
    other.
    """
    rarer = 1.0
    for count in range(cells):
        rarer -= math.comb(cells, count) * share**count * (1 - share) ** (cells - count)
        if rarer <= _RARE:
            return count
    return cells


def aa_check_of(records: Sequence[Record], metric_of: Callable[[str], Metric]) -> AACheck | None:
    """Check the twins among the records, counting each cell once; return None if none has an interval.

    Only the first metric of a cell counts, as the metrics of the same runs are correlated.
    """
    usable = [record for record in records if record.twin and record.low is not None]
    twins = {(record.cell, record.server): record for record in reversed(usable)}
    if not twins:
        return None
    confidence = min(record.confidence for record in twins.values())
    return AACheck(
        cells=len(twins),
        excludes=sum(_excludes_zero(record, metric_of(record.metric)) for record in twins.values()),
        at_most=by_chance(len(twins), 1 - confidence),
        confidence=confidence,
    )


def _excludes_zero(record: Record, metric: Metric) -> bool:
    """Return whether the interval at the first look excludes 0.

    Intervals at which a design stops exclude 0 slightly more often than their confidence says.
    """
    locate = statistics.median if metric.location == "median" else statistics.fmean
    epochs = record.epochs // record.look
    pairs = zip(record.test.values, record.reference.values, strict=True)
    changes = [math.log(a / b) if metric.scale == "ratio" else a - b for a, b in pairs]
    located = [locate(changes[epoch * record.blocks : (epoch + 1) * record.blocks]) for epoch in range(epochs)]
    return t_interval(located, record.confidence).excludes_zero
