"""Build the curves of a sweep: for each arm its means by level, and its changes there."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.record import ArmSummary, Record
from pytest_ipperf.core.stats.interval import Interval, t_interval
from pytest_ipperf.report.flow.sweeps import Sweep
from pytest_ipperf.report.flow.tables import references
from pytest_ipperf.report.tables.arm_rows import arm_rank, independent_values

CONFIDENCE = 0.95
_FAR = 30
"""Values whose largest is so many times the smallest stand on a logarithmic axis."""


class Scale(enum.Enum):
    """What the axis of the means is like."""

    FROM_ZERO = "begins at 0"
    CUT = "begins elsewhere"
    LOGARITHMIC = "logarithmic"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """An arm at the level of that number: its mean in base units, its interval where there is one.

    `record` has its change; of the reference there is none.
    """

    at: int
    side: ArmSummary
    interval: Interval | None
    record: Record | None = None

    @property
    def bars(self) -> tuple[float, float]:
        """How far the interval reaches below and above the mean."""
        mean, found = self.side.mean, self.interval
        return (mean - found.low, found.high - mean) if found else (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """An arm's dots in the order of the levels."""

    arm: Arm
    points: tuple[CurvePoint, ...]

    @property
    def judged(self) -> list[tuple[int, Record]]:
        """The levels whose change has an interval against a margin."""
        compared = [(point.at, point.record) for point in self.points if point.record]
        return [(at, record) for at, record in compared if record.judges and all(map(math.isfinite, change_of(record)))]


MeanInterval = Callable[[ArmSummary, Record], Interval | None]
"""Return the interval of an arm's mean in a cell; None where there is none."""


def epoch_interval(side: ArmSummary, record: Record) -> Interval | None:
    """Return the interval over what is independent, the epochs; None if the design never judges."""
    if not record.judges:
        return None
    try:
        return t_interval(independent_values(side.values, record), CONFIDENCE)
    except InvalidError:
        return None


def run_interval(side: ArmSummary, record: Record) -> Interval | None:
    """Return the interval over the run values, as paper 001 would have it; None for a single run."""
    del record
    try:
        return t_interval(side.values, CONFIDENCE)
    except InvalidError:
        return None


def no_interval(side: ArmSummary, record: Record) -> None:
    """Return None."""
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
    """Return how far the intervals reach below and above the means of a curve, in `unit`."""
    return list(zip(*([reach / unit.size for reach in point.bars] for point in curve.points), strict=True))


def change_of(record: Record) -> tuple[float, float, float]:
    """The change and the ends of its interval; not a number where there is none."""
    middle, low, high = (math.nan if each is None else each for each in (record.estimate, record.low, record.high))
    return middle, low, high


def values_of(curves: Sequence[Curve]) -> list[float]:
    """All means."""
    return [point.side.mean for curve in curves for point in curve.points]


def scale_of(curves: Sequence[Curve]) -> Scale:
    """From zero, unless all values lie in the upper half, where their differences could not be seen."""
    means = values_of(curves)
    if min(means) > 0 and max(means) > _FAR * min(means):
        return Scale.LOGARITHMIC
    return linear_scale_of(curves)


def linear_scale_of(curves: Sequence[Curve]) -> Scale:
    """Return the scale of an axis that is never logarithmic."""
    means = values_of(curves)
    return Scale.FROM_ZERO if min(means) < max(means) / 2 or not max(means) else Scale.CUT
