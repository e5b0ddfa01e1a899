"""The difference of a cell's change between two sessions, by the rules of a judgement."""

import dataclasses
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.verdict import Verdict, judge
from pytest_ipperf.core.records.comparison import compared, comparison, matched
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.stats.interval import t_quantile
from pytest_ipperf.metrics import METRICS

TIME, RATE, LOSS = (METRICS[name].metric for name in ("response_time", "throughput", "loss"))
CHANGES = st.floats(-0.5, 0.5)
SPREADS = st.floats(1e-6, 0.3)
EPOCHS = st.integers(2, 30)


def past(change: float | None = 0.0, sd_epoch: float | None = 0.02, epochs: int = 10, **more) -> HistoryEntry:
    expected = HistoryEntry(
        key=HistoryKey("lab-smtp-c10-1k-ipv6", "response_time", "1-postfix"), session="20261121T013000Z-aa",
        began_at=0.0, change=change, sd_epoch=sd_epoch, epochs=epochs, test_value=0.011, reference_value=0.01,
        margin="10%", margin_fraction=0.1, header_cost=0.0, verdict="within", fingerprint="f0",
    )  # fmt: skip
    return dataclasses.replace(expected, **more)


def pasts(metric):
    return st.builds(past, change=CHANGES, sd_epoch=SPREADS, epochs=EPOCHS).map(
        lambda each: dataclasses.replace(each, key=each.key._replace(metric=metric.name), reference_value=0.05)
    )


# --- the interval -----------------------------------------------------------------------------------------------------


def test_two_sessions_of_ten_epochs_have_the_interval_of_welch():
    found = compared(past(math.log(1.15), 0.03), past(math.log(1.02), 0.01, epochs=6), TIME)
    assert found.change
    one, other = 0.03**2 / 10, 0.01**2 / 6
    df = (one + other) ** 2 / (one**2 / 9 + other**2 / 5)
    half = t_quantile(0.975, df) * math.sqrt(one + other)
    assert found.change.estimate == pytest.approx(math.log(1.15 / 1.02))
    assert found.change.high - found.change.estimate == pytest.approx(half)
    assert found.change.df == pytest.approx(df)
    assert (found.verdict, found.margin, found.margin_fraction) == (Verdict.EXCEEDS, "10 %", 0.1)
    assert found.show(found.change.estimate) == pytest.approx(100 * (1.15 / 1.02 - 1))


def test_the_interval_is_that_of_scipy_from_the_epochs_themselves():
    from scipy.stats import ttest_ind  # noqa: PLC0415 - takes a second

    now, then = [0.10, 0.12, 0.09, 0.14, 0.11, 0.13], [0.01, 0.03, 0.00, 0.02, 0.05, -0.02, 0.01]
    (a, b) = (past(statistics.fmean(each), statistics.stdev(each), len(each)) for each in (now, then))
    interval = ttest_ind(now, then, equal_var=False).confidence_interval(0.95)
    found = compared(a, b, TIME).change
    assert found
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("metric", [TIME, RATE, LOSS], ids=lambda metric: metric.name)
@given(data=st.data())
def test_exchanging_the_sessions_changes_the_sign_alone(metric, data):
    one, other = data.draw(pasts(metric)), data.draw(pasts(metric))
    margin = Margin.parse("5pp" if metric is LOSS else "10%")
    there, back = compared(one, other, metric, margin=margin), compared(other, one, metric, margin=margin)
    assert there.verdict
    assert (there.verdict is Verdict.UNJUDGED) == (min(one.epochs, other.epochs) < 5)
    if there.verdict is Verdict.UNJUDGED:
        assert (there.change, back.change, back.verdict) == (None, None, Verdict.UNJUDGED)
        return
    assert there.change
    assert back.change
    assert (there.change.estimate, there.change.df) == pytest.approx((-back.change.estimate, back.change.df))
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert not (there.verdict is Verdict.EXCEEDS and back.verdict is Verdict.EXCEEDS)
    # The margin of a rate is larger the other way round (ln 0.9 against ln 1.1), so only one way is sure.
    if metric is not RATE:
        assert (there.verdict is Verdict.EXCEEDS) <= back.better


@given(change=CHANGES, sd_epoch=SPREADS, epochs=st.integers(5, 30), margin=st.floats(0.01, 0.5))
def test_against_an_exact_nothing_it_is_the_judgement_of_the_session_itself(change, sd_epoch, epochs, margin):
    """A session's own judgement is the special case of an earlier session whose change is known to be exactly zero."""
    asked = Margin(round(margin, 4))
    found = compared(past(change, sd_epoch, epochs), past(0.0, 0.0, 10**6), TIME, margin=asked)
    interval = dataclasses.replace(_interval(change, sd_epoch, epochs))
    effect = Effect(
        metric=TIME, change=interval, n_epochs=epochs, n_blocks=epochs, sd_epoch=sd_epoch, sd_block=None,
        test=Arm(6, "native"), reference=Arm(4, "native"), test_value=0.01, reference_value=0.01,
    )  # fmt: skip
    assert found.verdict is judge(effect, asked).verdict
    assert (found.low, found.high) == pytest.approx(effect.one_sided(0.05))


def _interval(change, sd_epoch, epochs):
    found = compared(past(change, sd_epoch, epochs), past(0.0, 0.0, 10**6), TIME)
    assert found.change
    return dataclasses.replace(found.change, df=epochs - 1)


@pytest.mark.parametrize(
    ("now", "then", "metric", "margin", "expected"),
    [
        (0.0, 0.0, TIME, "10%", (Verdict.WITHIN, False)),
        (math.log(1.3), 0.0, TIME, "10%", (Verdict.EXCEEDS, False)),
        (math.log(1.3), math.log(1.3), TIME, "10%", (Verdict.WITHIN, False)),
        (0.0, math.log(1.3), TIME, "10%", (Verdict.WITHIN, True)),
        (math.log(1.1), 0.0, TIME, "10%", (Verdict.INCONCLUSIVE, False)),
        (math.log(0.7), 0.0, RATE, "10%", (Verdict.EXCEEDS, False)),
        (math.log(1.3), 0.0, RATE, "10%", (Verdict.WITHIN, True)),
        (0.10, 0.02, LOSS, "5pp", (Verdict.EXCEEDS, False)),
        (0.02, 0.10, LOSS, "5pp", (Verdict.WITHIN, True)),
    ],
)
def test_worse_is_meant_as_the_metric_means_it(now, then, metric, margin, expected):
    found = compared(past(now, 0.01), past(then, 0.01), metric, margin=Margin.parse(margin))
    assert (found.verdict, found.better) == expected


def test_shares_that_are_exact_differ_exactly():
    found = compared(past(0.02, 0.0, reference_value=0.0, margin="0.5pp"), past(0.0, 0.0), LOSS)
    assert found.change
    assert (found.change.low, found.change.estimate, found.change.high) == (0.02, 0.02, 0.02)
    assert (found.verdict, found.unit, found.show(0.02)) == (Verdict.EXCEEDS, "pp", 2.0)


def test_headers_are_the_same_in_both_sessions():
    found = compared(past(0.0, 0.01, margin="5%+headers", header_cost=0.13), past(0.0, 0.01), RATE)
    assert found.margin_fraction == pytest.approx(0.05)


def test_without_any_margin_in_the_record_it_is_that_of_the_metric():
    assert compared(past(margin="", margin_fraction=None), past(), TIME).margin == "10 % (at least 0.5 ms)"


def test_few_epochs_never_judge():
    found = compared(past(1.0, 0.001, 4, session="B"), past(0.0, 0.001), TIME)
    assert (found.verdict, found.why) == (Verdict.UNJUDGED, "B has 4 epochs of it, too few to judge")
    assert (found.change, str(found.low)) == (None, "nan")


@pytest.mark.parametrize("side", [0, 1])
def test_figures_that_their_own_session_refused_decide_nothing(side):
    """The difference is shown all the same."""
    now, then = past(0.5, 0.001, session="B", usable=side != 0), past(0.0, 0.001, session="A", usable=side != 1)
    found = compared(now, then, TIME)
    assert (found.verdict, found.better) == (Verdict.INCONCLUSIVE, False)
    assert found.why == f"its figures in {'BA'[side]} are no evidence"
    assert found.change
    assert found.change.estimate == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("now", "then", "margin", "why"),
    [
        ({"change": None, "sd_epoch": None, "session": "B"}, {}, None, "B tells no spread of it"),
        ({}, {"change": None, "sd_epoch": None, "session": "A"}, None, "A tells no spread of it"),
        ({}, {"verdict": "invalid", "session": "A"}, None, "invalid in A"),
        ({"change": -math.inf, "session": "B"}, {}, None, "its change in B is no finite number"),
        ({}, {}, "1pp", "margin '1pp' has a floor in percentage points, and response time per connection is a time"),
        ({"margin": "ten"}, {}, None, "share 'ten' is not a percentage such as 10%"),
    ],
)
def test_what_cannot_be_compared_says_why(now, then, margin, why):
    found = compared(past(**now), past(**then), TIME, margin=margin and Margin.parse(margin))
    assert (found.verdict, found.change) == (None, None)
    assert found.why.startswith(why)


@pytest.mark.parametrize("side", [0, 1])
def test_one_epoch_is_unjudged_and_named(side):
    bare = past(session="BA"[side], change=None, sd_epoch=None, epochs=1)
    found = compared(*((bare, past()) if side == 0 else (past(), bare)), TIME)
    assert (found.verdict, found.change) == (Verdict.UNJUDGED, None)
    assert found.why == f"{'BA'[side]} has 1 epoch of it, too few to judge"


# --- which cells ------------------------------------------------------------------------------------------------------


def named(*keys):
    return {HistoryKey(*key): past(key=HistoryKey(*key)) for key in keys}


def test_cells_are_matched_by_key_and_then_by_cell_and_metric():
    now = named(("a", "loss", "1"), ("b", "loss", "2"), ("c", "loss", "1"))
    then = named(("a", "loss", "1"), ("b", "loss", "1"), ("d", "loss", "1"))
    pairs, only_now, only_then = matched(now, then)
    assert [(one.key, other.key.version) for one, other in pairs] == [
        (HistoryKey("a", "loss", "1"), "1"),
        (HistoryKey("b", "loss", "2"), "1"),
    ]
    assert (only_now, only_then) == ((HistoryKey("c", "loss", "1"),), (HistoryKey("d", "loss", "1"),))


@given(st.data())
def test_every_cell_is_told_once_on_each_side(data):
    keys = st.builds(HistoryKey, st.sampled_from("abc"), st.sampled_from(("loss", "rtt")), st.sampled_from("12"))
    now, then = (named(*data.draw(st.lists(keys, unique=True))) for _ in range(2))
    pairs, only_now, only_then = matched(now, then)
    assert sorted([*only_now, *(pair[0].key for pair in pairs)]) == sorted(now)
    assert sorted([*only_then, *{pair[1].key for pair in pairs}]) == sorted(then)
    assert all(one.key[:2] == other.key[:2] for one, other in pairs)
    assert all(one.key in now and (one.key == other.key or one.key not in then) for one, other in pairs)


def test_two_versions_of_a_cell_are_both_compared_with_the_one_that_was():
    pairs, *lonely = matched(named(("a", "loss", "1"), ("a", "loss", "2")), named(("a", "loss", "0")))
    assert (len(pairs), lonely) == (2, [(), ()])


def test_a_metric_of_another_version_of_the_program_cannot_be_compared():
    keys = named(("a", "goodness", "1"))
    (found,) = comparison(keys, keys, lambda name: METRICS[name].metric).differences
    assert (found.verdict, found.unit) == (None, "")
    assert found.why.startswith("no measure 'goodness'; there are: ")


def test_other_hosts_and_versions_are_seen():
    found = compared(past(fingerprint="f1"), past(key=past().key._replace(version="0")), TIME)
    assert (found.other_hosts, found.other_version) == (True, True)
    assert not compared(past(fingerprint=""), past(), TIME).other_hosts
