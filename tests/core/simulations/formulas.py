"""Formulas that only simulations and tests need."""

from __future__ import annotations

import math
from statistics import NormalDist

from pytest_ipperf.core.design.metric import Direction, Location
from pytest_ipperf.core.inference.power import epoch_spread, minimum_detectable
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.interval import Interval, check_share


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


def detectable(
    sd_run: float,
    sd_interaction: float,
    epochs: int,
    blocks: int,
    *,
    alpha: float,
    power: float = 0.9,
    direction: Direction = "lower_is_better",
    location: Location = "mean",
) -> float:
    """Return `minimum_detectable` from the noise of one run: `sd_run` is its coefficient of variation (0.03 is 3 %).

    A block's log ratio is made of two runs, so its variance is twice theirs; the rest is as for `epoch_spread`.
    """
    sd_epoch = epoch_spread(math.sqrt(2) * sd_run, sd_interaction, blocks, location)
    return minimum_detectable(sd_epoch, epochs, alpha=alpha, power=power, direction=direction)
