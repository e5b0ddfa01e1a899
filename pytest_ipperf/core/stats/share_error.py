"""Variance of a difference of two shares of connections, under the hypothesis that it equals a margin.

Epochs without a failure have no spread, and yet prove little if they had few connections. The variance under the
hypothesis is the least that a difference of shares may have.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Shares(NamedTuple):
    """Two shares (0..1) and the connections that each was counted in."""

    test: float
    reference: float
    n_test: float
    n_reference: float


def restricted_shares(seen: Shares, margin: float) -> tuple[float, float]:
    """Return the likeliest shares (test, reference) of which test is larger by exactly `margin` (0 < margin < 1).

    Source: C. P. Farrington and G. Manning, "Test statistics and sample size formulae for comparative binomial trials
    with null hypothesis of non-zero risk difference or non-unity relative risk", 1990, appendix.
    """
    ratio = seen.n_reference / seen.n_test
    a = 1 + ratio
    b = -(1 + ratio + seen.test + ratio * seen.reference + margin * (ratio + 2))
    c = margin**2 + margin * (2 * seen.test + ratio + 1) + seen.test + ratio * seen.reference
    d = -seen.test * margin * (1 + margin)
    v = (b / (3 * a)) ** 3 - b * c / (6 * a**2) + d / (2 * a)
    u = math.copysign(math.sqrt(max(0.0, (b / (3 * a)) ** 2 - c / (3 * a))), v)
    w = (math.pi + math.acos(max(-1.0, min(1.0, v / u**3 if u else 1.0)))) / 3
    test = max(margin, min(1.0, 2 * u * math.cos(w) - b / (3 * a)))
    return test, test - margin


def variance_at(seen: Shares, margin: float) -> float:
    """Return the variance of the difference of independent connections' shares if it equals `margin`."""
    test, reference = restricted_shares(seen, margin)
    return test * (1 - test) / seen.n_test + reference * (1 - reference) / seen.n_reference
