"""The formulas of the MITRE response time study, to print its tables and for nothing else.

They were recovered from the study's printed figures (29 of 30 intervals, 29 of 32 levels); the study does not state
them. What it calls 95 % is less, so each `Interval.confidence` here holds the true coverage, for normal values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.interval import Interval, t_probability, t_quantile

_Z = 1.96
_TOP_LEVEL = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyIncrease:
    """A column of the study's tables of increase (3-2, 3-4, ...) and of differences (6-1).

    `increase` is test - reference in the unit of the values; it is called 95 % there and covers 90 %.
    `percent` is the increase in percent of the reference. `confidence_level` is the study's whole-number
    "confidence" that there is a difference, in percent; 50 means that the data say nothing.
    """

    increase: Interval
    percent: float
    confidence_level: int


def study_mean_interval(values: Sequence[float]) -> Interval:
    """The study's "95 %" interval of a mean: 1.96 standard errors, whatever the number of values.

    With its 10 values it truly covers 91.8 %. Raises InvalidError for fewer than 2 values.
    """
    mean, error = _mean_and_error(values)
    df = len(values) - 1
    return Interval(
        estimate=mean,
        low=mean - _Z * error,
        high=mean + _Z * error,
        confidence=2 * t_probability(_Z, df) - 1,
        df=df,
    )


def study_increase(reference: Sequence[float], test: Sequence[float]) -> StudyIncrease:
    """The study's "95 %" interval of a difference: Welch, df rounded, the one-sided quantile t(.95) on both sides.

    It truly covers 90 %. The confidence level is the one-sided probability of t at |difference| / error, cut to an
    integer and to 99 at most; the same data at a two-sided level would give 2 * level - 100.
    Raises InvalidError for fewer than 2 values, no spread in either arm, or a reference mean that is not positive.
    """
    reference_mean, reference_error = _mean_and_error(reference)
    test_mean, test_error = _mean_and_error(test)
    a, b = reference_error**2, test_error**2
    if a + b == 0 or reference_mean <= 0:
        raise InvalidError("the study's increase needs a spread and a positive reference mean")
    df = round((a + b) ** 2 / (a**2 / (len(reference) - 1) + b**2 / (len(test) - 1)))
    error, increase = math.sqrt(a + b), test_mean - reference_mean
    half = t_quantile(0.95, df) * error
    level = math.floor(100 * t_probability(abs(increase) / error, df))
    return StudyIncrease(
        increase=Interval(estimate=increase, low=increase - half, high=increase + half, confidence=0.9, df=df),
        percent=100 * increase / reference_mean,
        confidence_level=min(_TOP_LEVEL, level),
    )


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        raise InvalidError(f"{len(values)} values have no spread; the study's formulas need at least 2")
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
