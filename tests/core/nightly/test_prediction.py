import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import polygamma

from pytest_ipperf.core.nightly.prediction import (
    MOST_NIGHTS,
    NightlyChange,
    _inverse_trigamma,
    common_variance,
    nights_that_count,
    predicted,
)
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.stats.interval import t_probability
from pytest_ipperf.metrics import METRICS

TIME, RATE = (HistoryKey("lab-smtp-c10-1k-ipv6", name, "1") for name in ("response_time", "throughput"))


def metric_of(name):
    return METRICS[name].metric


def past(number: int, change: float | None, **more) -> HistoryEntry:
    default = HistoryEntry(
        key=TIME, session=f"night-{number}", began_at=86_400.0 * number, change=change, sd_epoch=0.02, epochs=10,
        test_value=0.011, reference_value=0.01, margin="10%", margin_fraction=0.1, header_cost=0.0, verdict="within",
        fingerprint="f",
    )  # fmt: skip
    return replace(default, **more)


def exact(changes) -> list[NightlyChange]:
    """Make nights whose epochs all have the same change."""
    return [NightlyChange(change, 0.0, 9) for change in changes]


def spread(rng, count, sd=0.01):
    return [rng.gauss(0, sd) for _ in range(count)]


# --- which nights count -----------------------------------------------------------------------------------------------


def test_nights_that_count_are_sound_have_a_change_and_are_later_than_what_was_accepted():
    history = [past(1, 0.1), past(2, 0.2), past(3, 0.3, sound=False), past(4, None), past(5, 0.5)]
    one, two, five = (NightlyChange(change, 0.02 / math.sqrt(10), 9) for change in (0.1, 0.2, 0.5))
    assert nights_that_count(history) == (one, two, five)
    assert nights_that_count(history, after=history[0].began_at) == (two, five)


@pytest.mark.parametrize(
    "fault",
    [{"usable": False}, {"change": -math.inf}, {"change": math.nan}, {"sd_epoch": math.inf}, {"sd_epoch": None}],
)
def test_a_night_whose_figures_are_no_evidence_does_not_count(fault):
    assert nights_that_count([past(1, 0.1), replace(past(2, 0.2), **fault), past(3, 0.3)]) == nights_that_count(
        [past(1, 0.1), past(3, 0.3)]
    )


def test_of_many_nights_the_last_count():
    found = nights_that_count([past(number, float(number)) for number in range(200)])
    assert len(found) == MOST_NIGHTS
    assert found[-1].change == 199.0


# --- what cells have in common ----------------------------------------------------------------------------------------


@given(st.floats(1e-6, 1e4))
def test_the_inverse_of_trigamma_is_one(value):
    assert float(polygamma(1, _inverse_trigamma(value))) == pytest.approx(value, rel=1e-6)


def test_cells_of_one_spread_have_it_in_common():
    rng = random.Random("common")
    spreads = [(statistics.variance(spread(rng, 20, 0.01)), 19) for _ in range(200)]
    variance, worth = common_variance(spreads, most_df=20)
    assert math.sqrt(variance) == pytest.approx(0.01, rel=0.05)
    assert worth == 20


def test_cells_of_spreads_that_differ_lend_little():
    """Drawn from the distribution that the estimate assumes, with 4 degrees of freedom around 0.01."""
    rng = random.Random("differ")
    sds = [0.01 / math.sqrt(rng.gammavariate(2, 1 / 2)) for _ in range(2000)]
    spreads = [(statistics.variance(spread(rng, 20, sd)), 19) for sd in sds]
    variance, worth = common_variance(spreads, most_df=20)
    assert worth == pytest.approx(4, abs=0.6)
    assert math.sqrt(variance) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("spreads", [[], [(1e-4, 19)], [(1e-4, 19), (0.0, 19), (1e-30, 19)]])
def test_where_nothing_is_in_common_nothing_is_lent(spreads):
    assert common_variance(spreads, most_df=20) == (0.0, 0.0)


# --- the prediction --------------------------------------------------------------------------------------------------


def of_one(nights, change, standard_error=0.0, key=TIME):
    return predicted({key: NightlyChange(change, standard_error, 9)}, {key: exact(nights)}, metric_of)[key]


def test_one_cell_alone_is_compared_by_the_prediction_interval_of_the_textbook():
    nights = spread(random.Random("alone"), 20)
    found = of_one(nights, 0.03)
    sd = statistics.stdev(nights)
    t = (0.03 - statistics.fmean(nights)) / (sd * math.sqrt(1 + 1 / 20))
    assert (found.nights, found.sd, found.df) == (20, pytest.approx(sd), 19)
    assert found.p == pytest.approx(1 - t_probability(t, 19))
    assert found.worse_by == pytest.approx(0.03 - statistics.fmean(nights))


def test_of_a_rate_less_is_worse():
    nights = spread(random.Random("rate"), 20)
    assert of_one(nights, -0.05, key=RATE).p < 0.001
    assert of_one(nights, -0.05).p > 0.999


def test_a_night_that_is_restless_itself_shows_less():
    nights = spread(random.Random("restless"), 20)
    assert of_one(nights, 0.05, 0.002).p < 0.001
    assert of_one(nights, 0.05, 0.05).p > 0.1


def test_a_night_that_is_restless_itself_is_worth_no_more_than_its_own_epochs():
    """Nights without variation, and one of 10 epochs: the result is the t test of those epochs alone."""
    nights = [NightlyChange(change, 0.01, 9) for change in spread(random.Random("own"), 20)]
    usual, found = (
        predicted({TIME: NightlyChange(0.1, error, 9)}, {TIME: nights}, metric_of)[TIME] for error in (0.005, 0.04)
    )
    sd = statistics.stdev(night.change for night in nights)
    assert sd < 0.01
    assert [usual.sd, usual.df] == pytest.approx([sd, 19])
    assert [found.sd, found.df] == pytest.approx([0.04, 9])
    assert found.p == pytest.approx(1 - t_probability(found.worse_by / (0.04 * math.sqrt(1 + 1 / 20)), 9))


def test_what_nights_do_beside_their_epochs_is_added_to_what_a_restless_nights_epochs_do():
    """By hand: 0.03^2 between nights, of which 0.01^2 comes from their epochs, plus tonight's 0.04^2."""
    nights = [NightlyChange(0.03 * change, 0.01, 9) for change in normal_scores(20)]
    found = predicted({TIME: NightlyChange(0.1, 0.04, 9)}, {TIME: nights}, metric_of)[TIME]
    variance = 0.03**2 - 0.01**2 + 0.04**2
    assert found.sd == pytest.approx(math.sqrt(variance))
    assert found.df == pytest.approx(variance**2 / (0.03**4 / 19 + 0.04**4 / 9))


def normal_scores(count):
    """Return this many numbers with mean 0 and variance 1."""
    raw = [statistics.NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)]
    return [value / statistics.stdev(raw) for value in raw]


def test_cells_lend_each_other_what_they_know_of_a_restless_night():
    rng = random.Random("tonight")
    keys = [replace_cell(TIME, number) for number in range(50)]
    nights = {key: [NightlyChange(change, 0.01, 9) for change in spread(rng, 20, 0.01)] for key in keys}
    errors = {key: 0.04 * statistics.stdev(spread(rng, 10, 1)) for key in keys}
    found = predicted({key: NightlyChange(0.1, errors[key], 9) for key in keys}, nights, metric_of)
    calmest = min(keys, key=errors.__getitem__)
    assert found[calmest].sd > 1.2 * errors[calmest]
    assert statistics.fmean(each.sd for each in found.values()) == pytest.approx(0.04, rel=0.1)
    assert min(each.df for each in found.values()) > 15


def test_other_cells_of_the_metric_lend_their_spread_and_those_of_another_do_not():
    rng = random.Random("lend")
    # By chance this one was calmer than it is.
    nights = {TIME: [0.3 * each for each in spread(rng, 20)]}
    alone = of_one(nights[TIME], 0.02)
    others = {replace_cell(TIME, n): spread(rng, 20) for n in range(30)}
    rates = {replace_cell(RATE, n): spread(rng, 20, 1.0) for n in range(30)}
    for more, sd in ((others, 0.004), (rates, alone.sd)):
        tonight = dict.fromkeys(more, NightlyChange(0.0, 0.0, 9)) | {TIME: NightlyChange(0.02, 0.0, 9)}
        found = predicted(tonight, {key: exact(each) for key, each in {**nights, **more}.items()}, metric_of)[TIME]
        assert found.sd >= sd
        assert found.p >= alone.p
        assert (found.sd == alone.sd) == (more is rates)


def replace_cell(key, number):
    return key._replace(cell=f"{key.cell}-{number}")


def test_where_nothing_ever_varied_only_a_change_is_one():
    """Shares of counts may agree to the last bit, but for a rounding error."""
    nights = [0.013] * 21
    assert of_one(nights, 0.013).p == 1
    assert of_one(nights, 0.013 + 1e-15).p == 1
    assert of_one(nights, 0.014).p == 0
    assert of_one(nights, 0.012).p == 1
    assert of_one(nights, 0.014, 0.001).p > 0.05


@given(st.lists(st.floats(-0.1, 0.1), min_size=20, max_size=40), st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 0.1))
def test_what_is_worse_has_no_larger_p_value(nights, one, other, standard_error):
    better, worse = sorted((one, other))
    assert of_one(nights, worse, standard_error).p <= of_one(nights, better, standard_error).p
    assert 0 <= of_one(nights, one, standard_error).p <= 1


def test_the_level_is_kept_from_20_nights_on():
    """5 % +- 4 standard errors of 0.34 points."""
    rng = random.Random("level")
    wrong = sum(of_one(spread(rng, 20), rng.gauss(0, 0.01)).p <= 0.05 for _ in range(4000))
    assert 0.0362 <= wrong / 4000 <= 0.0638


def test_the_order_of_the_nights_is_nothing():
    nights = spread(random.Random("order"), 20)
    assert of_one(sorted(nights), 0.03).p == pytest.approx(of_one(nights, 0.03).p)
