import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.inference.power import (
    MIN_EPOCHS,
    block_share,
    epoch_spread,
    epochs_needed,
    minimum_detectable,
    slowdown_fraction,
    slowdown_size,
)
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.stats.interval import t_quantile
from tests.core.simulations.formulas import detectable

spreads = st.floats(0.001, 0.3)
alphas = st.floats(0.001, 0.2)
directions = st.sampled_from(["lower_is_better", "higher_is_better"])


@pytest.mark.parametrize(
    ("epochs", "blocks", "alpha", "interaction", "percent"),
    [
        # Found by simulation with a run's coefficient of variation of 3 %, for power .9.
        (3, 10, 0.05, 0.0, 3.8),
        (3, 10, 0.005, 0.0, 12.5),
        (5, 6, 0.05, 0.0, 2.8),
        (5, 6, 0.005, 0.01, 6.2),
        (10, 3, 0.05, 0.0, 2.5),
        (10, 3, 0.05, 0.01, 2.7),
        (10, 3, 0.00025, 0.01, 6.2),
        (10, 6, 0.05, 0.01, 2.0),
        (20, 3, 0.005, 0.01, 2.5),
    ],
)
def test_detectable_is_what_simulation_found(epochs, blocks, alpha, interaction, percent):
    assert 100 * detectable(0.03, interaction, epochs, blocks, alpha=alpha) == pytest.approx(percent, abs=0.051)


def test_power_is_what_it_says():
    """Fixed seed: a true slow-down beyond the margin by the minimum is found in nine of ten measurements."""
    rng, count, epochs = random.Random(20240609), 3000, 6
    truth = math.log1p(minimum_detectable(0.05, epochs, alpha=0.05))
    found = 0
    for _ in range(count):
        sample = [rng.gauss(truth, 0.05) for _ in range(epochs)]
        bound = statistics.fmean(sample) - t_quantile(0.95, epochs - 1) * statistics.stdev(sample) / math.sqrt(epochs)
        found += bound > 0
    # Four standard errors: sqrt(.9 * .1 / 3000) = .0055.
    assert found / count == pytest.approx(0.9, abs=0.022)


@pytest.mark.parametrize("blocks", range(1, 8))
def test_the_median_of_blocks_spreads_as_it_is_said_to(blocks):
    """Fixed seed: 20 000 epochs, whose variance has a standard error of 1 %; the limit is a few percent too large."""
    rng = random.Random(20240611)
    medians = [statistics.median(rng.gauss(0, 1) for _ in range(blocks)) for _ in range(20_000)]
    share = block_share(blocks, "median")
    assert statistics.variance(medians) == pytest.approx(share, rel=0.04 if blocks <= 5 else 0.25)
    assert share >= block_share(blocks, "mean") == pytest.approx(1 / blocks)


def test_the_spread_of_epochs_is_made_of_blocks_and_of_what_moves_beside_them():
    assert epoch_spread(0.04, 0.0, 4, "mean") == pytest.approx(0.02)
    assert epoch_spread(0.04, 0.03, 1, "median") == pytest.approx(0.05)
    # The variance of the median of three normal values is 1 - sqrt(3) / pi.
    assert epoch_spread(1.0, 0.0, 3, "median") ** 2 == pytest.approx(1 - math.sqrt(3) / math.pi, abs=1e-5)


@given(spreads, st.integers(2, 60), alphas, directions)
def test_more_epochs_detect_less(spread, epochs, alpha, direction):
    few, more = (minimum_detectable(spread, n, alpha=alpha, direction=direction) for n in (epochs, epochs + 1))
    assert more <= few


@given(spreads, spreads, st.integers(2, 30), st.integers(1, 10))
def test_more_blocks_detect_less(spread, interaction, epochs, blocks):
    few, more = (detectable(spread, interaction, epochs, n, alpha=0.05) for n in (blocks, blocks + 1))
    assert more < few


@given(spreads, st.integers(3, 30), alphas, st.floats(0.5, 0.98))
def test_more_power_costs(spread, epochs, alpha, power):
    usual, more = (minimum_detectable(spread, epochs, alpha=alpha, power=p) for p in (power, power + 0.01))
    assert more > usual


@given(spreads, st.integers(3, 30))
def test_a_rate_never_loses_more_than_all(spread, epochs):
    assert 0 < minimum_detectable(spread, epochs, alpha=0.05, direction="higher_is_better") < 1


def test_no_spread_detects_everything():
    assert minimum_detectable(0.0, 6, alpha=0.05) == 0.0


def test_an_absurd_spread_detects_nothing():
    assert minimum_detectable(1e6, 2, alpha=0.05) == math.inf


@given(spreads, st.floats(0.02, 0.5), alphas, directions)
def test_epochs_needed_are_the_fewest_that_do(spread, margin, alpha, direction):
    needed = epochs_needed(spread, margin, alpha=alpha, direction=direction)
    assert needed >= MIN_EPOCHS
    assert minimum_detectable(spread, needed, alpha=alpha, direction=direction) <= margin
    if needed > MIN_EPOCHS:
        assert minimum_detectable(spread, needed - 1, alpha=alpha, direction=direction) > margin


def test_epochs_needed_known_answers():
    # 2.65 % spread against 2.7 %: the design of ten epochs above.
    assert epochs_needed(0.0265, 0.0271, alpha=0.05) == 10
    assert epochs_needed(0.0001, 0.1, alpha=0.05) == MIN_EPOCHS


def test_a_margin_of_nothing_is_never_shown():
    with pytest.raises(UsageError, match=r"^margin 0 % is too narrow to be shown within at this spread$"):
        epochs_needed(0.03, 0.0, alpha=0.05)


@given(spreads, st.integers(2, 60), alphas, directions)
def test_on_the_scale_of_differences_the_least_one_is_in_the_spreads_own_unit(spread, epochs, alpha, direction):
    least = minimum_detectable(spread, epochs, alpha=alpha, direction=direction, scale="difference")
    assert least == pytest.approx(math.log1p(minimum_detectable(spread, epochs, alpha=alpha)))
    twice = minimum_detectable(2 * spread, epochs, alpha=alpha, direction=direction, scale="difference")
    assert twice == pytest.approx(2 * least)


@given(st.floats(0.0001, 0.01), st.floats(0.0005, 0.05), alphas)
def test_epochs_needed_for_a_difference_are_the_fewest_that_do(spread, margin, alpha):
    needed = epochs_needed(spread, margin, alpha=alpha, scale="difference")
    assert minimum_detectable(spread, needed, alpha=alpha, scale="difference") <= margin
    if needed > MIN_EPOCHS:
        assert minimum_detectable(spread, needed - 1, alpha=alpha, scale="difference") > margin


def test_a_difference_of_nothing_is_never_shown_either():
    with pytest.raises(UsageError, match=r"^margin 0 pp is too narrow to be shown within at this spread$"):
        epochs_needed(0.03, 0.0, alpha=0.05, scale="difference")
    assert epochs_needed(0.0, 0.0, alpha=0.05, scale="difference") == MIN_EPOCHS


@given(st.floats(0, 1), directions)
def test_a_difference_is_its_own_size(share, direction):
    assert slowdown_size(share, direction, "difference") == share == slowdown_fraction(share, direction, "difference")


@given(st.floats(0, 0.99), directions)
def test_fraction_and_log_round_trip(fraction, direction):
    size = slowdown_size(fraction, direction)
    assert size >= 0
    assert slowdown_fraction(size, direction) == pytest.approx(fraction, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: minimum_detectable(0.03, 1, alpha=0.05), "1 epoch(s) detect nothing; there must be at least 2"),
        (
            lambda: minimum_detectable(0.03, 6, alpha=5),
            "alpha 5 is not a probability between 0 and 1, such as 0.95",
        ),
        (
            lambda: minimum_detectable(0.03, 6, alpha=0.05, power=90),
            "power 90 is not a probability between 0 and 1, such as 0.95",
        ),
        (lambda: minimum_detectable(0.03, 6, alpha=0.5, power=0.4), "power 0.4 must be above alpha 0.5"),
        (lambda: detectable(0.03, 0.0, 6, 0, alpha=0.05), "0 blocks measure nothing; an epoch has at least 1"),
        (
            lambda: slowdown_size(1.5, "higher_is_better"),
            "margin 150 % would let a rate vanish; use less than 100 % for a rate",
        ),
    ],
)
def test_impossible_plans_are_named(call, words):
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == words
