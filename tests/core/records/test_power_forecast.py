import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.inference.power import block_share, minimum_detectable
from pytest_ipperf.core.records.observed_spread import ObservedSpread, comparable
from pytest_ipperf.core.records.power_forecast import VarianceComponents, forecast
from pytest_ipperf.metrics import METRICS

METRIC, LOSS = METRICS["response_time"].metric, METRICS["loss"].metric
QUICK, STANDARD, NIGHTLY = DESIGNS["quick"], DESIGNS["standard"], DESIGNS["nightly"]

spreads = st.floats(0.001, 0.5)


def observed_spread(sd_epoch=0.03, sd_block=0.04, blocks=2, **change):
    default = ObservedSpread(
        session="20261121T105231Z-61f198", server="postfix 3.7.11", sd_epoch=sd_epoch, sd_block=sd_block, blocks=blocks,
        reference_value=0.01, margin_fraction=0.1,
    )  # fmt: skip
    return replace(default, **change)


@given(st.lists(spreads, min_size=1, max_size=10), st.floats(0, 1))
def test_sessions_of_one_design_are_pooled_by_their_root_mean_square(epochs, share):
    """The blocks explain no more than an epoch's spread here, so no interaction is cut off at zero."""
    seen = [observed_spread(sd, sd * share * math.sqrt(2)) for sd in epochs]
    spread = VarianceComponents.pooled(seen, METRIC)
    assert spread.of_epochs(QUICK, METRIC) == pytest.approx(math.sqrt(statistics.fmean(sd**2 for sd in epochs)))


def test_one_design_foretells_the_other_by_what_their_spreads_are_made_of():
    # Two blocks: .05**2 = .06**2 / 2 + .0265**2; six, of which the median: .21474 * .06**2 + .0265**2.
    spread = VarianceComponents.pooled([observed_spread(0.05, 0.06, 2)], METRIC)
    assert spread.sd_interaction == pytest.approx(0.02646, abs=1e-5)
    assert spread.of_epochs(NIGHTLY, METRIC) == pytest.approx(0.038380, abs=1e-6)
    assert spread.detectable(STANDARD, METRIC) == minimum_detectable(0.05, 30, alpha=STANDARD.alpha)


def test_a_session_of_quick_foretells_a_night_as_simulation_has_it():
    """Fixed seed: 400 sessions of 6 epochs x 2 blocks of a known network, and the spread of epochs of 6 blocks."""
    rng, interaction, block = random.Random(20240613), 0.03, 0.05

    def epochs(count, blocks):
        moved = [rng.gauss(0, interaction) for _ in range(count)]
        return [[moved[epoch] + rng.gauss(0, block) for _ in range(blocks)] for epoch in range(count)]

    seen = []
    for _ in range(400):
        logs = epochs(6, 2)
        within = math.sqrt(statistics.fmean(statistics.variance(each) for each in logs))
        seen.append(observed_spread(statistics.stdev(statistics.median(each) for each in logs), within))
    true = statistics.stdev(statistics.median(each) for each in epochs(20_000, 6))
    assert VarianceComponents.pooled(seen, METRIC).of_epochs(NIGHTLY, METRIC) == pytest.approx(true, rel=0.05)


@given(spreads, spreads, st.integers(2, 5))
def test_epochs_never_spread_less_than_their_blocks_explain(sd_epoch, sd_block, blocks):
    spread = VarianceComponents.pooled([observed_spread(sd_epoch, sd_block, blocks)], METRIC)
    assert spread.sd_interaction >= 0
    floor = block_share(STANDARD.blocks, METRIC.location) * sd_block**2
    assert spread.of_epochs(STANDARD, METRIC) ** 2 >= floor * (1 - 1e-9)


def test_a_margin_that_is_settled_needs_no_advice():
    found = forecast([observed_spread()] * 3, 0.1, QUICK, DESIGNS.values(), METRIC)
    assert (found.sessions, found.falls_short, found.epochs, found.better) == (3, False, None, None)
    assert found.detectable == pytest.approx(minimum_detectable(0.03, 6, alpha=0.05))


def test_without_a_margin_there_is_nothing_to_fall_short_of():
    assert not forecast([observed_spread(0.5)], None, QUICK, DESIGNS.values(), METRIC).falls_short


@given(spreads, st.floats(0.001, 0.3))
def test_what_falls_short_is_told_how_many_epochs_would_do_and_which_design_settles_more(sd_epoch, margin):
    seen = [observed_spread(sd_epoch, sd_epoch)]
    found = forecast(seen, margin, QUICK, DESIGNS.values(), METRIC)
    assert found.falls_short == (found.detectable > margin)
    if found.falls_short:
        assert found.epochs is None or found.epochs > QUICK.epochs
        assert found.better == ("standard", VarianceComponents.pooled(seen, METRIC).detectable(STANDARD, METRIC))
        assert forecast(seen, margin / 100, STANDARD, DESIGNS.values(), METRIC).better is None


def test_of_designs_that_are_enough_the_first_is_named():
    twice = replace(STANDARD, name="twice", epochs=20)
    for margin, name in ((0.02, "standard"), (0.013, "twice"), (0.001, "twice")):
        found = forecast([observed_spread(0.03, 0.001)], margin, QUICK, [QUICK, STANDARD, twice], METRIC)
        assert found.better is not None
        assert found.better[0] == name


def test_no_number_of_epochs_detects_a_margin_of_nothing():
    found = forecast([observed_spread()], 0.0, QUICK, DESIGNS.values(), METRIC)
    assert (found.falls_short, found.epochs) == (True, None)


def test_shares_are_foretold_in_percentage_points():
    found = forecast([observed_spread(0.003, 0.002)] * 2, 0.004, QUICK, DESIGNS.values(), LOSS)
    assert (found.unit, found.falls_short) == ("pp", True)
    assert found.detectable == pytest.approx(minimum_detectable(0.003, 6, alpha=0.05, scale="difference"))
    assert found.epochs is not None
    assert 6 < found.epochs < 12
    assert found.better is not None
    assert found.better[0] == "standard"
    assert forecast([observed_spread(0.003, 0.002)], 0.01, QUICK, DESIGNS.values(), METRIC).unit == "%"


def test_where_nothing_was_ever_lost_every_margin_is_settled():
    found = forecast([observed_spread(0.0, 0.0, reference_value=0.0)], 0.0, QUICK, DESIGNS.values(), LOSS)
    assert (found.detectable, found.falls_short) == (0, False)


def test_another_server_has_another_spread():
    first, other = observed_spread(), observed_spread(server="aiosmtpd 1.4.6 (embedded)")
    assert comparable([first, other, other]) == [other, other]
    assert comparable([first, other, first]) == [first, first]
