"""Power analysis: the minimum detectable difference of a design, before and after it was measured.

All fractions are slow-downs as a margin states them: 0.1 is 10 % more time, or 10 % less rate. On the scale of
differences they are differences of shares: 0.01 is one percentage point more loss.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist

from scipy.special import nctdtr, nctdtrinc

from pytest_ipperf.core.design.margin import check_rate
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE, Direction, Location, Scale
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.stats.interval import check_share, t_quantile

MIN_EPOCHS = 5
"""Fewest epochs that are judged; at 3 the t quantile makes the test nearly powerless."""

_MOST_EPOCHS = 1_000_000
_NORMAL = NormalDist()
# Nodes of the integrals of group-sequential power, which are then correct to three digits.
_NODES = 41
_CERTAIN, _TINY = 20.0, 1e-12
# Variance of the median of n standard normal values, n = 1, 2, ...: 1 - sqrt(3) / pi for n = 3, integrals over the
# density for n = 4 to 6. For more values it approaches pi / 2n from below.
_MEDIAN_VARIANCE = (1.0, 0.5, 0.44867, 0.29820, 0.28683, 0.21474)


def slowdown_size(fraction: float, direction: Direction, scale: Scale = "ratio") -> float:
    """Return a slow-down as the (positive) size of its change on the scale on which arms are compared.

    For ratios this is the size of the log ratio: ln(1 + m) for times and -ln(1 - m) for rates; a difference is
    unchanged. Raises UsageError for a fraction of 1 or more of a rate.
    """
    if scale != "ratio":
        return fraction
    if direction == "lower_is_better":
        return math.log1p(fraction)
    check_rate(fraction)
    return -math.log1p(-fraction)


def slowdown_fraction(size: float, direction: Direction, scale: Scale = "ratio") -> float:
    """Return the inverse of `slowdown_size`; infinite beyond the range of a float."""
    if scale != "ratio":
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
    """Return the smallest slow-down beyond the margin that is found with probability `power`, as a fraction.

    By symmetry it is also the smallest margin that no true difference is shown to be within, with that probability.
    `sd_epoch_effect` is the standard deviation of the epochs' changes. Formula: delta * sd / sqrt(E) on the scale of
    changes (logs of ratios, or differences), with delta the non-centrality at which t with E - 1 degrees of freedom
    passes t(1 - alpha) with probability `power`.
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
    """Return the variance of an epoch's mean or median as a share of a block's variance: 1/n, or a little more."""
    if blocks < 1:
        raise UsageError(f"{blocks} blocks measure nothing; an epoch has at least 1")
    if location == "mean":
        return 1 / blocks
    return _MEDIAN_VARIANCE[blocks - 1] if blocks <= len(_MEDIAN_VARIANCE) else math.pi / (2 * blocks)


def epoch_spread(sd_block: float, sd_interaction: float, blocks: int, location: Location) -> float:
    """Return the standard deviation of the epochs' changes: sd_epoch**2 = share * sd_block**2 + sd_interaction**2.

    `sd_block` is the standard deviation of the change from block to block, `sd_interaction` that of the change itself
    from epoch to epoch; the share is that of `block_share`.
    Source: the variance components of Kalibera and Jones, 2013.
    """
    return math.sqrt(block_share(blocks, location) * sd_block**2 + sd_interaction**2)


def epochs_needed(
    sd_epoch: float,
    margin_fraction: float,
    *,
    alpha: float,
    power: float = 0.9,
    direction: Direction = "lower_is_better",
    scale: Scale = "ratio",
) -> int:
    """Return the fewest epochs (never below MIN_EPOCHS) whose `minimum_detectable` is inside the margin.

    Raises UsageError if a million would not suffice, as for a margin of 0 %.
    """

    def enough(epochs: int) -> bool:
        least = minimum_detectable(sd_epoch, epochs, alpha=alpha, power=power, direction=direction, scale=scale)
        return least <= margin_fraction

    if not enough(_MOST_EPOCHS):
        margin = f"{100 * margin_fraction:g} {UNITS_OF_CHANGE[scale]}"
        raise UsageError(f"margin {margin} is too narrow to be shown within at this spread")
    return bisect_left(range(_MOST_EPOCHS), x=True, lo=MIN_EPOCHS, key=enough)


def decided_by(distance: float, sd_epoch: float, ends: Sequence[int], *, alpha: float) -> tuple[float, ...]:
    """Return the probability that the looks so far have decided, for each look: the group-sequential power.

    `distance` is that of the true change from the margin, on the scale of changes, and `ends` holds the number of
    epochs at each look. The sum of the epochs is treated as normal, with boundaries that each look alone crosses as
    often as its t test at the one-sided level `alpha`.
    Source: P. Armitage, C. K. McPherson and B. C. Rowe, "Repeated significance tests on accumulating data", 1969.
    """
    if sd_epoch <= 0 or distance / sd_epoch * math.sqrt(ends[0]) > _CERTAIN:
        return (1.0,) * len(ends)
    drift, found, sums = distance / sd_epoch, [0.0], [(0.0, 1.0)]
    for epochs, before in zip(ends, (0, *ends), strict=False):
        low, high = _NORMAL.inv_cdf(alpha) * math.sqrt(epochs), _boundary(drift, epochs, alpha)
        step = NormalDist(drift * (epochs - before), math.sqrt(epochs - before))
        found.append(found[-1] + sum(weight * step.cdf(each - high + 2 * step.mean) for each, weight in sums))
        # The sums that continue, as nodes with their probabilities (trapezoidal rule).
        width = (high - low) / (_NODES - 1)
        if width <= 0:
            return (*found[1:], *[found[-1]] * (len(ends) - len(found) + 1))
        nodes = [low + width * place for place in range(_NODES)]
        ends_weigh = {0: 0.5, _NODES - 1: 0.5}
        sums = [
            (node, width * ends_weigh.get(place, 1.0) * sum(weight * step.pdf(node - each) for each, weight in sums))
            for place, node in enumerate(nodes)
        ]
    return tuple(found[1:])


def _boundary(drift: float, epochs: int, alpha: float) -> float:
    """Return the sum of normal epochs of variance 1 that is exceeded as often as the quantile of their t test."""
    mean = drift * math.sqrt(epochs)
    missed = float(nctdtr(epochs - 1, mean, t_quantile(1 - alpha, epochs - 1)))
    return (mean + _NORMAL.inv_cdf(min(max(missed, _TINY), 1 - _TINY))) * math.sqrt(epochs)
