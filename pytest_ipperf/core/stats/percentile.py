"""Percentiles of the empirical distribution function (RFC 2330, section 11.3), and what RFC 8219 makes of them.

F(x) is the share of values that are at most x, and a percentile the smallest x whose F(x) reaches a share: always a
value that was measured. The median of an even number of values is another thing there, the mean of the middle two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from statistics import median as middle

from pytest_ipperf.core.portable.errors import InvalidError


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least that share (0 < share <= 1) of all do not exceed, in the values' unit.

    InvalidError of no values.
    """
    if not 0 < share <= 1:
        raise ValueError(f"{share!r} is no share of the values; 0.99 is one")
    ordered = _some(sorted(values))
    # As written, not as stored: 0.07 of 100 values are 7, while the float product is above 7.
    return ordered[math.ceil(Fraction(str(float(share))) * len(ordered)) - 1]


def median(values: Iterable[float]) -> float:
    """The value in the middle, or the mean of the two there; infinite where one of them is. InvalidError of none."""
    return middle(_some(list(values)))


@dataclass(frozen=True, slots=True)
class RepetitionSummary:
    """A figure of all repetitions (RFC 8219, sections 7.2 and 7.3): the median, the 1st and the 99th percentile."""

    median: float
    low: float
    high: float


def repetition_summary(values: Iterable[float]) -> RepetitionSummary:
    """The values of the repetitions in three figures, of which 20 are the least that RFC 8219 asks for."""
    found = list(values)
    return RepetitionSummary(median(found), percentile(found, 0.01), percentile(found, 0.99))


def _some(values: list[float]) -> list[float]:
    if not values:
        raise InvalidError("0 values have no percentile; there must be at least one")
    return values
