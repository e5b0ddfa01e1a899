"""Formulas of the MITRE response time study, used only to print its tables.

The study does not state them; they were recovered from its printed figures (29 of 30 intervals, 29 of 32 levels). Its
"95 %" is less, so `Interval.confidence` holds the true coverage for normal values here.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.interval import Interval, t_probability, t_quantile
from pytest_ipperf.core.stats.variance import stdev

_Z = 1.96
_TOP_LEVEL = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyIncrease:
    """A column of the study's tables of increases (3-2, 3-4, ...) and of differences (6-1).

    `increase` is test - reference in the unit of the values; the study calls its interval 95 %, but it covers 90 %.
    `percent` is the increase in percent of the reference. `confidence_level` is the study's whole-number
    "confidence" that there is a difference, in percent; 50 means no evidence.
    """

    increase: Interval
    percent: float
    confidence_level: int


def study_mean_interval(values: Sequence[float]) -> Interval:
    """Return the study's "95 %" interval of a mean: 1.96 standard errors, whatever the number of values.

    For the study's 10 values it covers 91.8 %. Raise InvalidError for fewer than 2 values.
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
    """Return the study's increase: Welch's interval with df rounded and the one-sided quantile t(.95) on both sides.

    The interval, called 95 %, covers 90 %. The confidence level is the one-sided probability of t at |difference| /
    error, truncated to an integer and to 99 at most; a two-sided level would be 2 * level - 100.
    Raise InvalidError for fewer than 2 values, no spread in either arm, or a reference mean that is not positive.
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
    return statistics.fmean(values), stdev(values) / math.sqrt(len(values))
