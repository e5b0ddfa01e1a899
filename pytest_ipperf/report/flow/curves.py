"""Build the curves of a sweep: for each arm its means by level, and its changes there."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import Interval, t_interval
from pytest_ipperf.report.flow.sweeps import Sweep
from pytest_ipperf.report.flow.tables import references
from pytest_ipperf.report.tables.arm_rows import arm_rank, independent_values
from pytest_ipperf.report.tables.intervals import deciding_interval

CONFIDENCE = 0.95
_FAR = 30
"""Ratio of the largest to the smallest value from which the axis is logarithmic."""


class Scale(enum.Enum):
    """Kind of the axis of the means."""

    FROM_ZERO = "begins at 0"
    CUT = "begins elsewhere"
    LOGARITHMIC = "logarithmic"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """An arm at the level with index `at`: its mean in base units, and its interval if it has one.

    `record` has the change; it is None for the reference.
    """

    at: int
    side: ArmSummary
    interval: Interval | None
    record: Record | None = None

    @property
    def bars(self) -> tuple[float, float]:
        """Distances of the interval's ends below and above the mean."""
        mean, found = self.side.mean, self.interval
        return (mean - found.low, found.high - mean) if found else (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points of an arm in the order of the levels."""

    arm: Arm
    points: tuple[CurvePoint, ...]

    @property
    def judged(self) -> list[tuple[int, Record]]:
        """Levels with a judged change, and their records."""
        compared = [(point.at, point.record) for point in self.points if point.record]
        return [(at, record) for at, record in compared if record.judges and all(map(math.isfinite, change_of(record)))]


MeanInterval = Callable[[ArmSummary, Record], Interval | None]
"""Function that returns the interval of an arm's mean in a cell, or None."""


def epoch_interval(side: ArmSummary, record: Record) -> Interval | None:
    """Return the interval over the epochs, which are independent; None if the design never judges."""
    if not record.judges:
        return None
    try:
        return t_interval(independent_values(side.values, record), CONFIDENCE)
    except InvalidError:
        return None


def run_interval(side: ArmSummary, record: Record) -> Interval | None:
    """Return the interval over the run values, for the figures of paper 001; None for a single run."""
    del record
    try:
        return t_interval(side.values, CONFIDENCE)
    except InvalidError:
        return None


def no_interval(side: ArmSummary, record: Record) -> None:
    """Return None: a curve without intervals."""
    del side, record


def curves_of(sweep: Sweep, interval: MeanInterval = epoch_interval) -> list[Curve]:
    """Return a curve for each arm, the reference first."""
    by_arm: dict[Arm, dict[int, Record]] = {}
    for record in sweep.records:
        by_arm.setdefault(record.test.arm, {})[sweep.column(record)] = record
    longest = references(sweep.records, sweep)
    reference = Curve(
        arm=sweep.records[0].reference.arm,
        points=tuple(
            CurvePoint(at=at, side=record.reference, interval=interval(record.reference, record))
            for at, record in sorted(longest.items())
        ),
    )
    others = [
        Curve(
            arm=arm,
            points=tuple(
                CurvePoint(at=at, side=record.test, interval=interval(record.test, record), record=record)
                for at, record in sorted(by_arm[arm].items())
            ),
        )
        for arm in sorted(by_arm, key=arm_rank)
    ]
    return [reference, *others]


def bars(curve: Curve, unit: Unit) -> list[tuple[float, ...]]:
    """Return the distances of the intervals' ends below and above the means of a curve, in `unit`."""
    return list(zip(*([reach / unit.size for reach in point.bars] for point in curve.points), strict=True))


def change_of(record: Record) -> tuple[float, float, float]:
    """Return the change and the ends of the interval that decides; NaN for missing ones."""
    middle, found = math.nan if record.estimate is None else record.estimate, deciding_interval(record)
    return (middle, found.low, found.high) if found else (middle, math.nan, math.nan)


def values_of(curves: Sequence[Curve]) -> list[float]:
    """Return all means of the curves."""
    return [point.side.mean for curve in curves for point in curve.points]


def scale_of(curves: Sequence[Curve]) -> Scale:
    """Return the scale of the axis: logarithmic for values of a wide range, otherwise linear."""
    means = values_of(curves)
    if min(means) > 0 and max(means) > _FAR * min(means):
        return Scale.LOGARITHMIC
    return linear_scale_of(curves)


def linear_scale_of(curves: Sequence[Curve]) -> Scale:
    """Return the scale of a linear axis: from zero, unless all values lie in the upper half of it."""
    means = values_of(curves)
    return Scale.FROM_ZERO if min(means) < max(means) / 2 or not max(means) else Scale.CUT
