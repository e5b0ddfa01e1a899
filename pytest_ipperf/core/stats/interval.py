"""Interval: an estimate with its uncertainty.

Intervals use Student's t over independent values, with scipy's quantiles, exact to double precision. `scipy.stats`
takes a second to import, so only `scipy.special` is used; it is imported only when a quantile is needed, because
metrics, which are read at every collection, import this module.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.core.stats.variance import stdev


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A two-sided interval of `confidence` (0..1) around `estimate`, in the unit of its owner.

    `df` are its degrees of freedom; infinite if the normal distribution was used.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    df: float

    def __post_init__(self) -> None:
        if not self.low <= self.estimate <= self.high:
            raise InvalidError(f"estimate {self.estimate!r} is not between its bounds {self.low!r} and {self.high!r}")

    @property
    def excludes_zero(self) -> bool:
        """Return whether the interval shows a difference at this confidence."""
        return self.low > 0 or self.high < 0

    def mapped(self, rising: Callable[[float], float]) -> Interval:
        """Return the interval on another scale; `rising` must be an increasing function."""
        return Interval(
            estimate=rising(self.estimate),
            low=rising(self.low),
            high=rising(self.high),
            confidence=self.confidence,
            df=self.df,
        )


def t_quantile(p: float, df: float) -> float:
    """Return the `p` quantile of Student's t with `df` degrees of freedom."""
    from scipy.special import stdtrit  # noqa: PLC0415 - see the module

    return float(stdtrit(df, p))


def t_probability(t: float, df: float) -> float:
    """Return the probability that Student's t with `df` degrees of freedom is at most `t`."""
    from scipy.special import stdtr  # noqa: PLC0415 - see the module

    return float(stdtr(df, t))


def check_share(name: str, value: float) -> None:
    """Raise UsageError unless a confidence, alpha or power lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise UsageError(f"{name} {value!r} is not a probability between 0 and 1, such as 0.95")


def t_interval(values: Sequence[float], confidence: float) -> Interval:
    """Return the mean of independent `values` with its t interval, with `len(values) - 1` degrees of freedom.

    Unit: that of the values. Raises InvalidError for fewer than 2 values or a value that is not finite.
    Source: W. S. Gosset, "The probable error of a mean", 1908.
    """
    check_share("confidence", confidence)
    if len(values) < 2:
        raise InvalidError(f"{len(values)} values have no spread; an interval needs at least 2")
    if not all(math.isfinite(value) for value in values):
        raise InvalidError("an interval needs finite values only")
    df = len(values) - 1
    mean = statistics.fmean(values)
    half = t_quantile((1 + confidence) / 2, df) * stdev(values) / math.sqrt(len(values))
    return Interval(estimate=mean, low=mean - half, high=mean + half, confidence=confidence, df=df)
