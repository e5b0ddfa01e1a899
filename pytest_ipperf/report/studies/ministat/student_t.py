"""The table of Student's t by which ministat judges: quantiles with three decimals, for 1 to 100 degrees of freedom."""

from __future__ import annotations

from statistics import NormalDist

from pytest_ipperf.core.stats.interval import t_quantile

# The column of 99.5 % has the quantile of two-sided 99.8 %.
_QUANTILES = {80.0: 0.9, 90.0: 0.95, 95.0: 0.975, 98.0: 0.99, 99.0: 0.995, 99.5: 0.999}
_MOST = 100
# Entries that are not the rounded quantile, by confidence and degrees of freedom.
_OTHERWISE = {
    (99.5, 7): 4.782, (99.5, 8): 4.499, (99.5, 9): 4.296, (99.5, 10): 4.143, (99.5, 11): 4.024, (99.5, 12): 3.929
}  # fmt: skip

CONFIDENCES = tuple(_QUANTILES)
"""Levels of confidence that the table has, in percent."""


def table_value(confidence: float, degrees: int) -> float:
    """Return the entry of the table; beyond 100 degrees of freedom it is that of the normal distribution.

    Raises KeyError for a confidence that the table does not have.
    """
    quantile = _QUANTILES[confidence]
    if (confidence, degrees) in _OTHERWISE:
        return _OTHERWISE[confidence, degrees]
    exact = NormalDist().inv_cdf(quantile) if degrees > _MOST else t_quantile(quantile, degrees)
    return float(f"{exact:.3f}")
