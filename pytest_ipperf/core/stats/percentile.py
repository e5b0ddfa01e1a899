"""Percentiles of the empirical distribution function (RFC 2330, section 11.3), and the summary of RFC 8219.

F(x) is the share of values that are at most x. A percentile is the smallest x whose F(x) reaches a share, so it is
always a measured value. The median of an even number of values differs there: it is the mean of the middle two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from statistics import median as middle

from pytest_ipperf.core.portable.errors import InvalidError


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest x that at least `share` (0 < share <= 1) of the values do not exceed, in their unit.

    Raises InvalidError if there are no values.
    """
    if not 0 < share <= 1:
        raise ValueError(f"{share!r} is no share of the values; 0.99 is one")
    ordered = _some(sorted(values))
    # The share is taken as written, not as stored: 0.07 of 100 values are 7, but the float product is above 7.
    return ordered[math.ceil(Fraction(str(float(share))) * len(ordered)) - 1]


def median(values: Iterable[float]) -> float:
    """Return the middle value, or the mean of the middle two; raise InvalidError if there are no values."""
    return middle(_some(list(values)))


@dataclass(frozen=True, slots=True)
class RepetitionSummary:
    """Summary of all repetitions (RFC 8219, sections 7.2 and 7.3): the median, the 1st and the 99th percentile."""

    median: float
    low: float
    high: float


def repetition_summary(values: Iterable[float]) -> RepetitionSummary:
    """Summarise the values of the repetitions; RFC 8219 asks for at least 20."""
    repetitions = list(values)
    return RepetitionSummary(median(repetitions), percentile(repetitions, 0.01), percentile(repetitions, 0.99))


def _some(values: list[float]) -> list[float]:
    if not values:
        raise InvalidError("0 values have no percentile; there must be at least one")
    return values
