"""Failures: connections that did not complete, counted in every figure and never dropped.

Dropping them would favour the arm that loses its slowest connections.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_ipperf.core.portable.errors import InvalidError


def restricted_mean(times: Sequence[float], n_failed: int, deadline: float) -> float:
    """Return the mean of min(T, deadline) in seconds; each failed connection counts as the deadline.

    Raises InvalidError if a connection completed after the deadline.
    Source: P. Royston and M. K. B. Parmar, "Restricted mean survival time", 2013.
    """
    total = _check_times(times, n_failed)
    if (slowest := max(times, default=0.0)) > deadline:
        raise InvalidError(f"a connection completed after {slowest:g} s, past the deadline of {deadline:g} s")
    return (math.fsum(times) + n_failed * deadline) / total


def _check_times(times: Sequence[float], n_failed: int) -> int:
    """Return the number of connections; raise InvalidError for negative counts or times that are not finite."""
    if n_failed < 0 or len(times) + n_failed == 0:
        raise InvalidError(
            f"{len(times)} completed and {n_failed} failed connections are impossible; there must be at least one"
        )
    if not all(map(math.isfinite, times)) or min(times, default=0.0) < 0:
        raise InvalidError("a completed connection has a finite time of zero or more seconds")
    return len(times) + n_failed
