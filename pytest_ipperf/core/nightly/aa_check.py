"""Check the environment by comparisons without a true difference (A/A).

The reference is measured twice, once under the name of its twin. An interval of 95 % then excludes 0 in one case of
twenty; where many more do, something other than the networks makes differences here.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import t_interval

# 1 in 1000 to the digits that it has: 4 of 10 cells, with a probability of 0.00103, are rare.
_RARE = 0.00105


@dataclass(frozen=True, slots=True, kw_only=True)
class AACheck:
    """How many of so many `cells` of a twin have an interval that `excludes` 0, and how many chance gives `at_most`."""

    cells: int
    excludes: int
    at_most: int
    confidence: float

    @property
    def stable(self) -> bool:
        """Whether the session's other differences may be believed."""
        return self.excludes <= self.at_most


def by_chance(cells: int, share: float) -> int:
    """The most of `cells` that chance gives when each has probability `share`: more come once in 1000 times.

    From the binomial distribution, for cells that are measured one after the other.
    """
    rarer = 1.0
    for count in range(cells):
        rarer -= math.comb(cells, count) * share**count * (1 - share) ** (cells - count)
        if rarer <= _RARE:
            return count
    return cells


def aa_check_of(records: Sequence[Record], metric_of: Callable[[str], Metric]) -> AACheck | None:
    """Check the twins among the records, each cell once; None where none has an interval.

    Of a cell with several metrics the first counts, as what a run is by one of them it is by others too.
    """
    found = [record for record in records if record.twin and record.low is not None]
    twins = {(record.cell, record.server): record for record in reversed(found)}
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
    """By the first look: intervals at which a design has stopped exclude 0 a little more often than they say."""
    locate = statistics.median if metric.location == "median" else statistics.fmean
    epochs = record.epochs // record.look
    pairs = zip(record.test.values, record.reference.values, strict=True)
    changes = [math.log(a / b) if metric.scale == "ratio" else a - b for a, b in pairs]
    located = [locate(changes[epoch * record.blocks : (epoch + 1) * record.blocks]) for epoch in range(epochs)]
    return t_interval(located, record.confidence).excludes_zero
