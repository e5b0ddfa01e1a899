"""Build the curves of a sweep: for each arm its means by level, and its changes there."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.records.record import ArmSummary, Record
from pytest_ipperf.core.stats.interval import Interval, t_interval
from pytest_ipperf.report.flow.sweeps import Sweep
from pytest_ipperf.report.flow.tables import references
from pytest_ipperf.report.plot_style import OTHER, STYLES, Style
from pytest_ipperf.report.tables.arm_rows import arm_rank, independent_values

_CONFIDENCE = 0.95
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
    def style(self) -> Style:
        """How it is drawn."""
        return STYLES.get(self.arm, OTHER)

    @property
    def judged(self) -> list[tuple[int, Record]]:
        """The levels whose change has an interval against a margin."""
        compared = [(point.at, point.record) for point in self.points if point.record]
        return [(at, record) for at, record in compared if record.judges and all(map(math.isfinite, change_of(record)))]


def curves_of(sweep: Sweep) -> list[Curve]:
    """One for each arm, the reference first."""
    by_arm: dict[Arm, dict[int, Record]] = {}
    for record in sweep.records:
        by_arm.setdefault(record.test.arm, {})[sweep.column(record)] = record
    longest = references(sweep.records, sweep)
    reference = Curve(
        arm=sweep.records[0].reference.arm,
        points=tuple(_point(at, longest[at].reference, longest[at]) for at in sorted(longest)),
    )
    others = [
        Curve(
            arm=arm,
            points=tuple(_point(at, by_arm[arm][at].test, by_arm[arm][at], tested=True) for at in sorted(by_arm[arm])),
        )
        for arm in sorted(by_arm, key=arm_rank)
    ]
    return [reference, *others]


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
    return Scale.FROM_ZERO if min(means) < max(means) / 2 or not max(means) else Scale.CUT


def _point(at: int, side: ArmSummary, record: Record, *, tested: bool = False) -> CurvePoint:
    return CurvePoint(at=at, side=side, interval=_interval(side, record), record=record if tested else None)


def _interval(side: ArmSummary, record: Record) -> Interval | None:
    """That of the mean, over what is independent; none where the design never judges."""
    if not record.judges:
        return None
    try:
        return t_interval(independent_values(side.values, record), _CONFIDENCE)
    except InvalidError:
        return None
