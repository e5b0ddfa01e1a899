"""Drift: the slope of values over time, with an interval that allows for values that resemble their neighbours.

A line is fitted by least squares. Successive values of one session are alike, so that they hold less than as many
independent ones: with a correlation r of neighbouring residuals, n of them hold about n (1 - r) / (1 + r) (Bartlett;
Zieba, Metrology and Measurement Systems 17, 2010). A negative r is taken for none. The degrees of freedom are reduced
alike; `tests/core/simulations/test_drift.py` has the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from pytest_ipperf.core.stats.interval import Interval, t_quantile

LEAST_VALUES = 6
_LEAST_DF = 2.0


def slope_interval(times: Sequence[float], values: Sequence[float], confidence: float) -> Interval | None:
    """Return the slope per unit of time with its two-sided interval; None for too few values, or without time."""
    count = len(values)
    if count < LEAST_VALUES:
        return None
    mean_time, mean_value = sum(times) / count, sum(values) / count
    spread = math.fsum((time - mean_time) ** 2 for time in times)
    if not spread:
        return None
    products = ((time - mean_time) * (value - mean_value) for time, value in zip(times, values, strict=True))
    slope = math.fsum(products) / spread
    residuals = [value - mean_value - slope * (time - mean_time) for time, value in zip(times, values, strict=True)]
    squares = math.fsum(each * each for each in residuals)
    effective = count * _independent_share(residuals, squares)
    df = max(_LEAST_DF, effective - 2)
    error = math.sqrt(squares / (count - 2) / spread * count / effective)
    half = t_quantile((1 + confidence) / 2, df) * error
    return Interval(estimate=slope, low=slope - half, high=slope + half, confidence=confidence, df=df)


def _independent_share(residuals: Sequence[float], squares: float) -> float:
    """Return the share of the values that count as independent, by the correlation of neighbouring residuals.

    The estimate of a few values is too small on average by about (1 + 3 r) / n (Kendall 1954), which is added.
    """
    if not squares:
        return 1.0
    count = len(residuals)
    products = (one * other for one, other in pairwise(residuals))
    seen = math.fsum(products) / squares
    correlation = min(0.95, max(0.0, seen + (1 + 3 * seen) / count))
    return (1 - correlation) / (1 + correlation)
