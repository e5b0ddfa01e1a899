"""Planning: what a design can detect, before and after it was measured.

All fractions are slow-downs as a margin states them: 0.1 is 10 % more time, or 10 % less rate.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from scipy.special import nctdtrinc

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.interval import check_share, t_quantile
from pytest_ipperf.core.metric import Direction

MIN_EPOCHS = 5
"""Fewer epochs never judge: at 3 the t quantile makes the test nearly powerless."""

_MOST_EPOCHS = 1_000_000


def slowdown_log(fraction: float, direction: Direction) -> float:
    """A slow-down as the (positive) size of its log ratio: ln(1 + m) for times, -ln(1 - m) for rates.

    Raises UsageError where a rate would have to vanish: a fraction of 1 or more.
    """
    if direction == "lower_is_better":
        return math.log1p(fraction)
    if fraction >= 1:
        raise UsageError(f"margin {100 * fraction:g} % would let a rate vanish; below 100 % is right for a rate")
    return -math.log1p(-fraction)


def slowdown_fraction(log_size: float, direction: Direction) -> float:
    """The inverse of `slowdown_log`; infinite where a float ends."""
    if direction == "higher_is_better":
        return -math.expm1(-log_size)
    return math.expm1(log_size) if log_size < 700 else math.inf


def minimum_detectable(
    sd_epoch_effect: float,
    epochs: int,
    *,
    alpha: float,
    power: float = 0.9,
    direction: Direction = "lower_is_better",
) -> float:
    """The smallest slow-down beyond the margin that is found with probability `power`, as a fraction.

    By symmetry also the smallest margin within which no true difference is shown with that probability.
    `sd_epoch_effect` is the spread of the epochs' log ratios. Formula: delta * sd / sqrt(E) on the log scale, with
    delta the non-centrality at which t with E - 1 degrees of freedom passes t(1 - alpha) with probability `power`.
    Source: J. Cohen, "Statistical power analysis for the behavioral sciences", 1988, chapter 2.
    """
    check_share("alpha", alpha)
    check_share("power", power)
    if power <= alpha:
        raise UsageError(f"power {power!r} must be above alpha {alpha!r}")
    if epochs < 2:
        raise UsageError(f"{epochs} epoch(s) detect nothing; there must be at least 2")
    delta = float(nctdtrinc(epochs - 1, 1 - power, t_quantile(1 - alpha, epochs - 1)))
    return slowdown_fraction(delta * sd_epoch_effect / math.sqrt(epochs), direction)


def detectable(
    sd_run: float,
    sd_interaction: float,
    epochs: int,
    blocks: int,
    *,
    alpha: float,
    power: float = 0.9,
    direction: Direction = "lower_is_better",
) -> float:
    """The same from the noise of a single run: `sd_run` is its coefficient of variation (0.03 is 3 %).

    `sd_interaction` is by how much the log ratio of the arms itself moves from epoch to epoch.
    Formula: sd_epoch**2 = 2 sd_run**2 / blocks + sd_interaction**2, for the mean of the blocks; the median of
    three normal blocks has a spread 16 % larger. Source: the variance components of Kalibera and Jones, 2013.
    """
    if blocks < 1:
        raise UsageError(f"{blocks} blocks measure nothing; an epoch has at least 1")
    sd_epoch = math.sqrt(2 * sd_run**2 / blocks + sd_interaction**2)
    return minimum_detectable(sd_epoch, epochs, alpha=alpha, power=power, direction=direction)


def epochs_needed(
    sd_epoch: float,
    margin_fraction: float,
    *,
    alpha: float,
    power: float = 0.9,
    direction: Direction = "lower_is_better",
) -> int:
    """The fewest epochs (never below MIN_EPOCHS) whose `minimum_detectable` is inside the margin.

    Raises UsageError where a million would not do, as for a margin of 0 %.
    """

    def enough(epochs: int) -> bool:
        return minimum_detectable(sd_epoch, epochs, alpha=alpha, power=power, direction=direction) <= margin_fraction

    if not enough(_MOST_EPOCHS):
        raise UsageError(f"margin {100 * margin_fraction:g} % is too narrow to be shown within at this spread")
    return bisect_left(range(_MOST_EPOCHS), x=True, lo=MIN_EPOCHS, key=enough)
