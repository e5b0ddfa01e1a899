"""Grade arms as paper 001 does, by their ratio to IPv4: five words, with a colour each.

Rates are graded by their share of IPv4's, times by their multiple of it, whose bounds are the reciprocals (printed
rounded, as 1.176, 1.333 and 1.538). An estimate is graded by the two ends of its interval. Source: paper 001, section
IV, before Table V; the colours are those of its Table V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pytest_ipperf.core.design.metric import Direction
from pytest_ipperf.core.portable.errors import InvalidError


@dataclass(frozen=True, slots=True)
class Grade:
    """A grade: its word, its colour, and the smallest share of IPv4's rate that has it."""

    name: str
    colour: str
    least: Fraction


GRADES = (
    Grade("excellent", "dark green", Fraction(85, 100)),
    Grade("very good", "green", Fraction(75, 100)),
    Grade("good", "yellow", Fraction(65, 100)),
    Grade("acceptable", "red", Fraction(50, 100)),
    Grade("weak", "dark red", Fraction(0)),
)
"""From the best to the worst; in another place the paper calls the last two `accepted` and `poor`."""


@dataclass(frozen=True, slots=True)
class Graded:
    """The grades that an interval allows: from the `best` one to the `worst` one, which may be the same."""

    best: Grade
    worst: Grade

    def __str__(self) -> str:
        return self.best.name if self.best == self.worst else f"{self.best.name} to {self.worst.name}"


def grade(ratio: float, direction: Direction) -> Grade:
    """Return the grade of a ratio to IPv4; a figure better than IPv4's is excellent.

    Each grade includes its bound: a share of 0.85 is excellent, and so is a multiple of 1/0.85.
    Raise InvalidError for a ratio that is NaN.
    """
    if math.isnan(ratio):
        raise InvalidError("a ratio that is not a number has no grade; IPv4's figure must be above zero")
    higher = direction == "higher_is_better"
    better = (
        each for each in GRADES[:-1] if (ratio >= float(each.least) if higher else ratio <= float(1 / each.least))
    )
    return next(better, GRADES[-1])


def graded(low: float, high: float, direction: Direction) -> Graded:
    """Return the grades of an interval's two ends, which are ratios to IPv4; raise InvalidError if low exceeds high."""
    if low > high:
        raise InvalidError(f"the ends of an interval from {low!r} to {high!r} are in the wrong order")
    best, worst = (high, low) if direction == "higher_is_better" else (low, high)
    return Graded(grade(best, direction), grade(worst, direction))
