"""Power analysis: the minimum detectable difference of a design, before and after it was measured.

All fractions are slow-downs as a margin states them: 0.1 is 10 % more time, or 10 % less rate. On the scale of
differences they are differences of shares: 0.01 is one percentage point more loss.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from scipy.special import nctdtrinc

from pytest_ipperf.core.design.margin import check_rate
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE, Direction, Location, Scale
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.stats.interval import check_share, t_quantile

MIN_EPOCHS = 5
"""Fewer epochs never judge: at 3 the t quantile makes the test nearly powerless."""

_MOST_EPOCHS = 1_000_000
# Variance of the median of n values of the standard normal distribution, n = 1, 2, ...; that of 3 is 1 - sqrt(3) / pi,
# those of 4 and 5 are integrals over its density. More values come near pi / 2n, from below.
_MEDIAN_VARIANCE = (1.0, 0.5, 0.44867, 0.29820, 0.28683)


def slowdown_size(fraction: float, direction: Direction, scale: Scale = "ratio") -> float:
    """A slow-down as the (positive) size of its change on the scale where arms are compared.

    Of ratios that of their log, ln(1 + m) for times and -ln(1 - m) for rates; a difference is what it is.
    Raises UsageError where a rate would have to vanish: a fraction of 1 or more.
    """
    if scale == "difference":
        return fraction
    if direction == "lower_is_better":
        return math.log1p(fraction)
    check_rate(fraction)
    return -math.log1p(-fraction)


def slowdown_fraction(size: float, direction: Direction, scale: Scale = "ratio") -> float:
    """The inverse of `slowdown_size`; infinite where a float ends."""
    if scale == "difference":
        return size
    if direction == "higher_is_better":
        return -math.expm1(-size)
    return math.expm1(size) if size < 700 else math.inf


def minimum_detectable(
    sd_epoch_effect: float,
    epochs: int,
    *,
    alpha: float,
    power: float = 0.9,
    direction: Direction = "lower_is_better",
    scale: Scale = "ratio",
) -> float:
    """The smallest slow-down beyond the margin that is found with probability `power`, as a fraction.

    By symmetry also the smallest margin within which no true difference is shown with that probability.
    `sd_epoch_effect` is the spread of the epochs' changes. Formula: delta * sd / sqrt(E) on the scale of changes (logs
    of ratios, or differences), with delta the non-centrality at which t with E - 1 degrees of freedom passes
    t(1 - alpha) with probability `power`.
    Source: J. Cohen, "Statistical power analysis for the behavioral sciences", 1988, chapter 2.
    """
    check_share("alpha", alpha)
    check_share("power", power)
    if power <= alpha:
        raise UsageError(f"power {power!r} must be above alpha {alpha!r}")
    if epochs < 2:
        raise UsageError(f"{epochs} epoch(s) detect nothing; there must be at least 2")
    delta = float(nctdtrinc(epochs - 1, 1 - power, t_quantile(1 - alpha, epochs - 1)))
    return slowdown_fraction(delta * sd_epoch_effect / math.sqrt(epochs), direction, scale)


def block_share(blocks: int, location: Location) -> float:
    """What is left of the variance of a block in the mean or the median of an epoch's blocks: 1/n, or a little more."""
    if blocks < 1:
        raise UsageError(f"{blocks} blocks measure nothing; an epoch has at least 1")
    if location == "mean":
        return 1 / blocks
    return _MEDIAN_VARIANCE[blocks - 1] if blocks <= len(_MEDIAN_VARIANCE) else math.pi / (2 * blocks)


def epoch_spread(sd_block: float, sd_interaction: float, blocks: int, location: Location) -> float:
    """The spread of the epochs' changes: sd_epoch**2 = share * sd_block**2 + sd_interaction**2.

    `sd_block` is the spread of the change from block to block, `sd_interaction` by how much the change itself moves
    from epoch to epoch; the share is that of `block_share`.
    Source: the variance components of Kalibera and Jones, 2013.
    """
    return math.sqrt(block_share(blocks, location) * sd_block**2 + sd_interaction**2)


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
    """`minimum_detectable` from the noise of a single run: `sd_run` is its coefficient of variation (0.03 is 3 %).

    A block's log ratio is made of two runs, so that its variance is twice theirs; the rest as for `epoch_spread`.
    """
    sd_epoch = epoch_spread(math.sqrt(2) * sd_run, sd_interaction, blocks, location)
    return minimum_detectable(sd_epoch, epochs, alpha=alpha, power=power, direction=direction)


def epochs_needed(
    sd_epoch: float,
    margin_fraction: float,
    *,
    alpha: float,
    power: float = 0.9,
    direction: Direction = "lower_is_better",
    scale: Scale = "ratio",
) -> int:
    """The fewest epochs (never below MIN_EPOCHS) whose `minimum_detectable` is inside the margin.

    Raises UsageError where a million would not do, as for a margin of 0 %.
    """

    def enough(epochs: int) -> bool:
        least = minimum_detectable(sd_epoch, epochs, alpha=alpha, power=power, direction=direction, scale=scale)
        return least <= margin_fraction

    if not enough(_MOST_EPOCHS):
        margin = f"{100 * margin_fraction:g} {UNITS_OF_CHANGE[scale]}"
        raise UsageError(f"margin {margin} is too narrow to be shown within at this spread")
    return bisect_left(range(_MOST_EPOCHS), x=True, lo=MIN_EPOCHS, key=enough)
