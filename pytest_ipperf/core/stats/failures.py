"""Failures: connections that did not complete, counted in every figure and never dropped.

Dropping them would favour the arm that loses its slowest connections.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.interval import Interval, check_share
from pytest_ipperf.core.stats.percentile import percentile


def restricted_mean(times: Sequence[float], n_failed: int, deadline: float) -> float:
    """Return the mean of min(T, deadline) in seconds; each failed connection counts as the deadline.

    Raises InvalidError if a connection completed after the deadline.
    Source: P. Royston and M. K. B. Parmar, "Restricted mean survival time", 2013.
    """
    total = _check_times(times, n_failed)
    if any(time > deadline for time in times):
        raise InvalidError(f"a connection completed after {max(times):g} s, past the deadline of {deadline:g} s")
    return (math.fsum(times) + n_failed * deadline) / total


def quantile_with_failures(times: Sequence[float], n_failed: int, q: float) -> float:
    """Return the time by which the share `q` of all connections had completed; infinite if it falls among the failures.

    This is the inverse of the empirical distribution without interpolation: the result is the time of a real
    connection.
    """
    check_share("quantile", q)
    _check_times(times, n_failed)
    return percentile([*times, *[math.inf] * n_failed], q)


def wilson(failed: int, attempted: int, confidence: float = 0.95) -> Interval:
    """Return the share failed / attempted (0..1) with its score interval.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    check_share("confidence", confidence)
    if not 0 <= failed <= attempted or attempted == 0:
        raise InvalidError(f"{failed} failures of {attempted} connections are impossible; there must be at least one")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, n = failed / attempted, attempted
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # With no failures, or only failures, the bound is the share itself, which rounding may miss.
    low, high = min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)
    return Interval(estimate=share, low=low, high=high, confidence=confidence, df=math.inf)


def newcombe(
    test_failed: int, test_attempted: int, reference_failed: int, reference_attempted: int, confidence: float = 0.95
) -> Interval:
    """Return the difference of two shares, test - reference (-1..1), from their Wilson intervals; for display only.

    The method assumes independent connections. Failures come in bursts, so this interval never gates.
    Source: R. G. Newcombe, "Interval estimation for the difference between independent proportions", 1998, method 10.
    """
    test = wilson(test_failed, test_attempted, confidence)
    reference = wilson(reference_failed, reference_attempted, confidence)
    shift = test.estimate - reference.estimate
    below = math.hypot(test.estimate - test.low, reference.high - reference.estimate)
    above = math.hypot(test.high - test.estimate, reference.estimate - reference.low)
    return Interval(estimate=shift, low=shift - below, high=shift + above, confidence=confidence, df=math.inf)


def upper_bound_zero_failures(n: int, alpha: float = 0.05) -> float:
    """Return the largest share of failures consistent with none in `n` connections: 1 - alpha**(1/n), one-sided.

    Source: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits", 1934, at zero.
    """
    check_share("alpha", alpha)
    if n < 1:
        raise InvalidError(f"{n} connections bound nothing; there must be at least one")
    return 1 - float(alpha ** (1 / n))


def _check_times(times: Sequence[float], n_failed: int) -> int:
    """Return the number of connections; raise InvalidError for negative counts or times that are not finite."""
    if n_failed < 0 or len(times) + n_failed == 0:
        raise InvalidError(
            f"{len(times)} completed and {n_failed} failed connections are impossible; there must be at least one"
        )
    if not all(0 <= time < math.inf for time in times):
        raise InvalidError("a completed connection has a finite time of zero or more seconds")
    return len(times) + n_failed
