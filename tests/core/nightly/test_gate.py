import datetime as dt
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.claim import Claim
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.verdict import judge
from pytest_ipperf.core.nightly import gate
from pytest_ipperf.core.nightly.acceptance import Acceptance
from pytest_ipperf.core.nightly.evidence import nightly_change, p_beyond
from pytest_ipperf.core.nightly.gate import decide, flagged
from pytest_ipperf.core.nightly.prediction import MOST_NIGHTS
from pytest_ipperf.core.nightly.report import GateDecision, GateStatus
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.component import Component
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.change_points import LEAST_NIGHTS
from pytest_ipperf.core.stats.interval import t_interval
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.data.json_document import night_document

PAGE = Path(__file__).parents[3] / "docs" / "night.md"
TODAY = dt.date(2026, 11, 22)
# The first that holds is the answer.
ORDER = (GateStatus.UNSTABLE, GateStatus.RED, GateStatus.SHRUNK, GateStatus.NOTHING_DECIDED, GateStatus.GREEN)
V4, V6 = Arm(4, "native"), Arm(6, "native")
TWIN = Arm(4, "native", twin=True)
TIME, RATE, LOSS = "response_time", "throughput", "loss"
# Ten epochs whose mean is 0 and whose spread is 1.
EPOCHS = [each / statistics.stdev([-1, 1] * 5) for each in (-1, 1) * 5]


def metric_of(name):
    return METRICS[name].metric


def side(arm, values=(0.01,)):
    return ArmSummary(arm=arm, values=tuple(values), attempted=1, completed=1, failed={}, phases={})


def record(cell, percent, *, sd=0.02, margin="10%", metric=TIME, version="1", nodeid="", **more: Any) -> Record:
    """Make the real judgement of ten epochs around such a change, in percent or percentage points."""
    scale = metric_of(metric).scale
    change = math.log1p(percent / 100) if scale == "ratio" else percent / 100
    changes = [change + sd * each for each in EPOCHS]
    effect = Effect(
        metric=metric_of(metric), change=t_interval(changes, 0.95), n_epochs=10, n_blocks=30,
        sd_epoch=statistics.stdev(changes), sd_block=None, test=V6, reference=V4, test_value=0.01, reference_value=0.01,
    )  # fmt: skip
    facts: dict[str, Any] = {
        "cell": cell, "testbed": "lab", "protocol": "smtp", "connections": 1, "payload_bytes": 1024, "ipver": 6,
        "transport": "native", "twin": False, "client": "lean", "server": "postfix", "metric": metric,
        "design": "nightly", "judges": True, "seed": 1, "look": 1, "looks": 1, "epochs": 10, "blocks": 3,
        "deadline_s": 10.0, "test": side(V6), "reference": side(V4), "estimate": effect.shown.estimate,
        "low": effect.shown.low, "high": effect.shown.high, "confidence": 0.95, "sd_epoch": effect.sd_epoch,
        "sd_block": None, "margin": "", "margin_fraction": None, "alpha": 0.05, "verdict": "measured", "reasons": (),
        "sentence": "", "change_unit": effect.unit, "workload_version": version, "fingerprint": "f", "nodeid": nodeid,
    } | more  # fmt: skip
    asked = Record(**facts)
    return asked.judged(Claim(judge(effect, Margin.parse(margin)))) if margin else asked


def twin(number, ratio):
    values = [0.01 * ratio * (1 + 0.01 * each) for each in EPOCHS for _ in range(3)]
    return replace(record(f"lab-smtp-c{number}-1k-ipv4-twin", 0), twin=True, test=side(TWIN, values),
                   reference=side(V4, [0.01] * 30))  # fmt: skip


def past(number, change, *, key=None, sound=True, fingerprint="f"):
    return HistoryEntry(
        key=key or HistoryKey("a", TIME, "1"), session=f"{number}", began_at=float(number), change=change,
        sd_epoch=0.02, epochs=10, test_value=0.01, reference_value=0.01, margin="10%", margin_fraction=0.1,
        header_cost=0.0,
        verdict="within", fingerprint=fingerprint, sound=sound,
    )  # fmt: skip


def history(level=0.0, nights=20, sd=0.005, **more):
    return [past(number, level + sd * (-1) ** number, **more) for number in range(nights)]


def acceptance(cell="a", *, up_to: float | None = 0.15, until=TODAY, at=0.0, metric=""):
    return Acceptance(cell=cell, metric=metric, reason="new kernel", by="ada", at=at, until=until, up_to=up_to)


def night(screen, fresh=(), **more: Any):
    facts: dict[str, Any] = {
        "expected": (), "histories": {}, "accepted": (), "today": TODAY, "troubles": {}, "metric_of": metric_of,
    }  # fmt: skip
    return decide(screen=screen, fresh=fresh, **facts | more)


def decided(report):
    return {cell.key.cell: cell.decision for cell in report.cells}


def told(report):
    """Return all sentences of a night: its headline, those of its cells, and its warnings."""
    cells = [f"{each.key}, {each.decision.name}: {each.sentence}" for each in report.cells]
    return "\n".join([report.headline, *cells, *report.warnings])


# --- the p-value of a record ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "percent", "margin"),
    [(TIME, 12, "10%"), (TIME, -3, "10%"), (RATE, -12, "10%"), (LOSS, 0.7, "0.5pp"), (LOSS, 0.2, "0pp")],
)
def test_the_p_value_at_a_records_own_margin_is_that_of_its_judgement(metric, percent, margin):
    one = record("a", percent, metric=metric, margin=margin, sd=0.02 if metric != LOSS else 0.002)
    assert one.margin_fraction is not None
    assert one.p_exceeds is not None
    assert p_beyond(one, metric_of(metric), one.margin_fraction) == pytest.approx(one.p_exceeds, rel=1e-9)


def test_nothing_is_worse_than_a_rate_that_has_vanished():
    assert p_beyond(record("a", -90, metric=RATE), metric_of(RATE), 1.0) == 1.0


def test_without_any_spread_a_slow_down_is_beyond_the_margin_or_not():
    one = record("a", 1.0, metric=LOSS, margin="0.5pp", sd=0.0)
    assert [p_beyond(one, metric_of(LOSS), fraction) for fraction in (0.005, 0.02)] == [0.0, 1.0]


def test_a_record_without_an_interval_has_no_change():
    with pytest.raises(ValueError, match="a response_time has no change"):
        nightly_change(replace(record("a", 0), estimate=None))


# --- screening and confirmation ---------------------------------------------------------------------------------------


def test_what_exceeds_is_flagged_and_twins_never_are():
    exceeds = record("a", 14)
    assert exceeds.verdict == "exceeds"
    assert flagged([exceeds, record("b", 3), record("c", 10), replace(exceeds, twin=True)]) == (exceeds,)


def test_a_calm_night_is_green(golden):
    report = night([record("a", 3), record("b", -2)])
    assert (report.gate_status, set(decided(report).values())) == (GateStatus.GREEN, {GateDecision.WITHIN})
    golden(told(report))


def test_what_fresh_epochs_confirm_is_red(golden):
    report = night([record("a", 14), record("b", 3)], [record("a", 15)])
    assert (report.gate_status, decided(report)) == (
        GateStatus.RED,
        {"a": GateDecision.EXCEEDS, "b": GateDecision.WITHIN},
    )
    golden(told(report))
    cell = report.cells[0]
    assert cell.p_fresh == cell.p_adjusted == pytest.approx(record("a", 15).p_exceeds)
    assert (cell.flagged, cell.record) == (True, cell.fresh)


def test_fresh_data_alone_decide_however_bad_the_screening_was(golden):
    report = night([record("a", 100), record("b", 14)], [record("a", 3), record("b", 10)])
    assert (report.gate_status, decided(report)) == (
        GateStatus.GREEN,
        {"a": GateDecision.WITHIN, "b": GateDecision.INCONCLUSIVE},
    )
    golden(told(report))


def test_the_more_are_flagged_the_more_it_takes(golden):
    """At p 0.02 one cell is confirmed, and one of three that are no worse is not."""
    slow = record("a", 11.66)
    assert slow.p_exceeds == pytest.approx(0.02, abs=0.002)
    screen = [record(cell, 14) for cell in "abc"]
    assert decided(night(screen[:1], [slow])) == {"a": GateDecision.EXCEEDS}
    report = night(screen, [replace(slow, cell=cell) for cell in "abc"])
    assert set(decided(report).values()) == {GateDecision.INCONCLUSIVE}
    assert report.cells[0].p_adjusted == pytest.approx(3 * (slow.p_exceeds or 0))
    golden(told(report))


def test_a_flagged_cell_that_was_not_measured_again_is_neither_red_nor_green(golden):
    screen = [record("a", 14, nodeid="t::t[a]"), record("b", 3)]
    report = night(screen)
    assert (report.gate_status, decided(report)) == (
        GateStatus.NOTHING_DECIDED,
        {"a": GateDecision.INCONCLUSIVE, "b": GateDecision.WITHIN},
    )
    in_trouble = night(screen, troubles={"t::t[a]": "host b is gone"})
    assert in_trouble.gate_status is GateStatus.RED
    golden(f"{told(report)}\n\n{told(in_trouble)}")


@pytest.mark.parametrize(
    "fault",
    [{"verdict": "inconclusive", "reasons": ("doubted",)}, {"verdict": "invalid"}],
    ids=["inconclusive", "invalid"],
)
def test_fresh_data_that_are_not_believed_confirm_nothing(fault, golden):
    report = night([record("a", 14), record("b", 14)], [replace(record("a", 20), **fault), record("b", 20)])
    assert decided(report) == {"a": GateDecision.INCONCLUSIVE, "b": GateDecision.EXCEEDS}
    golden(told(report))
    # It counts among the flagged ones all the same.
    assert report.cells[1].p_adjusted == pytest.approx(2 * (record("b", 20).p_exceeds or 0))


@pytest.mark.parametrize("percent", [-20, 3, 8.5, 8.7, 8.8, 8.9, 9, 10])
def test_whether_fresh_data_are_within_is_asked_at_the_screenings_level(percent):
    """The level at which the second session has judged them does not matter."""
    again = record("a", percent)
    for verdict in ("within", "inconclusive"):
        report = night([record("a", 14)], [replace(again, alpha=0.004, verdict=verdict)])
        assert (decided(report)["a"] is GateDecision.WITHIN) == (again.verdict == "within")


def test_two_tests_of_a_cell_that_ask_different_margins_are_ruled_each():
    wide, narrow = record("a", 14, nodeid="wide", margin="30%"), record("a", 14, nodeid="narrow")
    report = night([wide, narrow], [replace(narrow, nodeid="narrow")])
    assert [cell.decision for cell in report.cells] == [GateDecision.WITHIN, GateDecision.EXCEEDS]


def test_rates_and_shares_are_decided_as_times_are(golden):
    screen = [record("a", -14, metric=RATE), record("b", 0.9, metric=LOSS, margin="0.5pp", sd=0.001)]
    report = night(screen, screen)
    assert set(decided(report).values()) == {GateDecision.EXCEEDS}
    golden(told(report))


def test_a_cell_of_which_nothing_was_asked_decides_nothing(golden):
    report = night([record("a", 14, margin="")])
    assert (report.gate_status, decided(report)) == (GateStatus.NOTHING_DECIDED, {"a": GateDecision.INCONCLUSIVE})
    golden(told(report))


@pytest.mark.parametrize("change", [{}, {"estimate": None, "sd_epoch": None}], ids=["change", "no change"])
def test_a_design_that_never_judges_rules_nothing_by_the_word_of_all_reports(change, golden):
    sentence = "unjudged: design smoke never judges"
    bare = replace(
        record("a", 3), judges=False, design="smoke", verdict="unjudged", reasons=("never_judges",), low=None,
        high=None, sentence=sentence, **change,
    )  # fmt: skip
    report = night([bare])
    assert (report.gate_status, decided(report), report.cells[0].sentence) == (
        GateStatus.NOTHING_DECIDED, {"a": GateDecision.UNJUDGED}, sentence,
    )  # fmt: skip
    golden(told(report))


@pytest.mark.parametrize("margin", ["1160%", "12.5%"])
def test_a_large_margin_is_told_in_plain_digits(margin, golden):
    golden(told(night([record("a", 3, margin=margin)])))


def test_an_invalid_cell_is_trouble(golden):
    report = night([replace(record("a", 3), verdict="invalid", reasons=("zero_spread",))])
    assert (report.gate_status, decided(report)) == (GateStatus.RED, {"a": GateDecision.TROUBLE})
    golden(told(report))


percents = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.floats(-20, 40), st.floats(-20, 40)), min_size=1)


@given(percents)
def test_red_is_what_was_flagged_and_what_fresh_data_show_alone(found):
    screen = [record(cell, first) for cell, (first, _) in found.items()]
    fresh = {cell: record(cell, second) for cell, (_, second) in found.items()}
    report = night(screen, [fresh[each.cell] for each in flagged(screen)])
    for cell in report.cells:
        red = cell.decision is GateDecision.EXCEEDS
        alone = fresh[cell.key.cell].p_exceeds
        assert not red or (cell.flagged and alone is not None and alone <= 0.04)
        assert red == (cell.p_adjusted is not None and cell.p_adjusted <= 0.04)
        assert (cell.decision is GateDecision.WITHIN) == (cell.record is not None and cell.record.verdict == "within")
    assert (report.gate_status is GateStatus.RED) == bool(report.with_decision(GateDecision.EXCEEDS))


# --- what was accepted ------------------------------------------------------------------------------------------------


def test_what_is_worse_and_accepted_is_no_red(golden):
    report = night([record("a", 12.5)], [record("a", 12.5)], accepted=[acceptance()])
    assert (report.gate_status, decided(report)) == (GateStatus.GREEN, {"a": GateDecision.ACCEPTED})
    golden(told(report))


def test_what_is_worse_than_was_accepted_is_red(golden):
    report = night([record("a", 20)], [record("a", 20)], accepted=[acceptance()])
    assert (report.gate_status, decided(report)) == (GateStatus.RED, {"a": GateDecision.EXCEEDS})
    golden(told(report))


def test_an_acceptance_that_is_over_accepts_nothing_and_is_told(golden):
    over = acceptance(until=dt.date(2026, 11, 1))
    report = night([record("a", 12.5)], [record("a", 12.5)], accepted=[over])
    assert decided(report) == {"a": GateDecision.EXCEEDS}
    golden(told(report))


@pytest.mark.parametrize("until", [TODAY, TODAY - dt.timedelta(days=1)])
def test_a_later_acceptance_replaces_a_wider_one_also_after_its_own_end(until):
    accepted = [acceptance("*", up_to=4.0, at=1), acceptance(up_to=0.05, at=2, until=until)]
    report = night([record("a", 14)], [record("a", 14)], accepted=accepted)
    assert decided(report) == {"a": GateDecision.EXCEEDS}


def test_a_withdrawn_acceptance_is_told_as_such(golden):
    over = replace(acceptance(until=dt.date(2026, 11, 1)), withdrawn="the kernel was replaced (bob)")
    report = night([record("a", 12.5)], [record("a", 12.5)], accepted=[over])
    assert decided(report) == {"a": GateDecision.EXCEEDS}
    golden(told(report))


@pytest.mark.parametrize(
    "other", [acceptance("b"), acceptance(metric=RATE), acceptance(up_to=None), acceptance(up_to=0.02)]
)
def test_an_acceptance_of_another_thing_accepts_nothing(other):
    report = night([record("a", 12.5)], [record("a", 12.5)], accepted=[other])
    assert decided(report) == {"a": GateDecision.EXCEEDS}


def test_an_accepted_cell_that_is_not_confirmed_is_as_others():
    report = night(
        [record("a", 12.5), record("b", 12.5)], [record("a", 3), record("b", 10)], accepted=[acceptance("*")]
    )
    assert decided(report) == {"a": GateDecision.WITHIN, "b": GateDecision.INCONCLUSIVE}


# --- history ----------------------------------------------------------------------------------------------------------


KEY = HistoryKey("a", TIME, "1")


def test_a_cell_within_its_margin_may_be_worse_than_its_history(golden):
    report = night([record("a", 5, sd=0.01)], histories={KEY: history()})
    assert (report.gate_status, decided(report), report.cells[0].nights) == (
        GateStatus.RED,
        {"a": GateDecision.WORSE},
        20,
    )
    golden(told(report))


def test_a_cell_as_ever_is_not_worse_whatever_its_level(golden):
    report = night([record("a", 8, sd=0.01)], histories={KEY: history(math.log1p(0.08))})
    assert decided(report) == {"a": GateDecision.WITHIN}
    golden(told(report))


def test_a_rate_is_worse_where_it_is_less():
    key = KEY._replace(metric=RATE)
    for percent, decision in ((-5, GateDecision.WORSE), (5, GateDecision.WITHIN)):
        report = night([record("a", percent, metric=RATE, sd=0.01)], histories={key: history(key=key)})
        assert decided(report) == {"a": decision}


def test_fewer_nights_than_20_tell_only_how_many_they_are():
    report = night([record("a", 5, sd=0.01)], histories={KEY: history(nights=19)})
    assert (decided(report), report.cells[0].nights) == ({"a": GateDecision.WITHIN}, 19)
    assert report.cells[0].p_history is None
    unsound = night([record("a", 5, sd=0.01)], histories={KEY: [*history(nights=19), past(19, 0.0, sound=False)]})
    assert unsound.cells[0].nights == 19


def test_the_more_cells_have_a_history_the_more_it_takes():
    """One of 200 cells, at 2.2 % from nights that spread by 0.5 %: alone it is worse, among them it is not."""
    keys = [HistoryKey(f"c{number}", TIME, "1") for number in range(199)]
    screen = [record("a", 1.6, sd=0.01), *(record(key.cell, 0, sd=0.01) for key in keys)]
    histories = {KEY: history(), **{key: history(key=key) for key in keys}}
    assert decided(night(screen[:1], histories={KEY: histories[KEY]}))["a"] is GateDecision.WORSE
    report = night(screen, histories=histories)
    assert set(decided(report).values()) == {GateDecision.WITHIN}
    assert report.cells[0].p_history_adjusted == pytest.approx(200 * report.cells[0].p_history)


def test_what_was_accepted_begins_a_new_level_also_when_it_is_over(golden):
    """Nights before the acceptance belong to another level; only those since then count."""
    shift = math.log1p(0.05)
    nights = [*history(), *(past(20 + number, shift + 0.005 * (-1) ** number) for number in range(20))]
    over = acceptance(at=19.5, until=dt.date(2026, 11, 1))
    few = night([record("a", 5, sd=0.01)], histories={KEY: nights[:-1]}, accepted=[over])
    assert (decided(few), few.cells[0].nights) == ({"a": GateDecision.WITHIN}, 19)
    since = night([record("a", 5, sd=0.01)], histories={KEY: nights}, accepted=[over])
    assert (decided(since), since.cells[0].nights) == ({"a": GateDecision.WITHIN}, 20)
    worse = night([record("a", 9.9, sd=0.01)], histories={KEY: nights}, accepted=[over])
    assert decided(worse) == {"a": GateDecision.WORSE}
    golden(told(worse))


def test_while_something_worse_is_accepted_history_is_not_asked():
    report = night([record("a", 5, sd=0.01)], histories={KEY: history()}, accepted=[acceptance(at=-1.0)])
    assert (decided(report), report.cells[0].nights) == ({"a": GateDecision.WITHIN}, 20)


def test_what_is_confirmed_and_worse_than_before_is_told_as_beyond_the_margin():
    report = night([record("a", 14, sd=0.01)], [record("a", 14)], histories={KEY: history()})
    assert decided(report) == {"a": GateDecision.EXCEEDS}
    assert report.cells[0].p_history_adjusted is not None


def test_the_night_before_is_told_where_its_hosts_were_others():
    report = night([record("a", 3)], histories={KEY: [past(1, 0.0), past(2, 0.0, fingerprint="g")]})
    assert "of 1 cell the hosts or the server differ from those of the last night" in report.warnings
    for last in ("f", ""):
        nights = [past(1, 0.0, fingerprint="g"), past(2, 0.0, fingerprint=last)]
        assert len(night([record("a", 3)], histories={KEY: nights}).warnings) == 1


def test_a_new_version_of_a_workload_begins_anew_and_says_so():
    report = night([record("a", 5, version="2")], histories={KEY: history()}, expected=[KEY])
    assert (report.cells[0].nights, report.gate_status) == (0, GateStatus.GREEN)
    assert "of 1 cell the workload differs from that of earlier nights, so its history begins anew" in report.warnings


# --- what is not there ------------------------------------------------------------------------------------------------


def test_a_cell_that_earlier_nights_measured_is_missed(golden):
    report = night([record("a", 3)], expected=[KEY, HistoryKey("b", TIME, "7"), HistoryKey("a", RATE)])
    assert report.gate_status is GateStatus.SHRUNK
    assert [(str(cell.key), cell.decision) for cell in report.cells] == [
        ("a response_time", GateDecision.WITHIN),
        ("a throughput", GateDecision.MISSING),
        ("b response_time", GateDecision.MISSING),
    ]
    golden(told(report))


def test_a_regression_is_told_before_what_is_missing(golden):
    report = night([record("a", 14)], [record("a", 14)], expected=[HistoryKey("b", TIME)])
    assert report.gate_status is GateStatus.RED
    golden(told(report))


def test_what_is_accepted_as_worse_is_missed_all_the_same():
    report = night([record("a", 3)], expected=[HistoryKey("b", TIME)], accepted=[acceptance("b", up_to=0.15)])
    assert (report.gate_status, decided(report)["b"]) == (GateStatus.SHRUNK, GateDecision.MISSING)


def test_what_was_given_up_is_gone(golden):
    report = night([record("a", 3)], expected=[HistoryKey("b", TIME)], accepted=[acceptance("b", up_to=None)])
    assert (report.gate_status, decided(report)["b"]) == (GateStatus.GREEN, GateDecision.GONE)
    golden(told(report))


def test_what_was_given_up_for_a_time_that_is_over_is_missed(golden):
    over = acceptance("b", until=dt.date(2026, 11, 1))
    report = night([record("a", 3)], expected=[HistoryKey("b", TIME)], accepted=[over])
    assert (report.gate_status, decided(report)["b"]) == (GateStatus.SHRUNK, GateDecision.MISSING)
    golden(told(report))


def test_an_absent_cell_whose_item_was_in_trouble_is_not_missing(golden):
    """The text of one cell here is the beginning of another's."""
    expected = [HistoryKey(f"lab-smtp-c1-1k-ipv6{end}", TIME) for end in ("", "-tunnel")]
    troubles = {"t.py::test_smtp[lab-smtp-c1-1k-ipv6-tunnel]": "the tunnel is gone"}
    report = night([record("a", 3)], expected=expected, troubles=troubles)
    assert [cell.decision for cell in report.cells[1:]] == [GateDecision.MISSING, GateDecision.TROUBLE]
    assert report.gate_status is GateStatus.RED
    golden(told(report))


def test_trouble_is_red_also_of_a_cell_that_nobody_expects():
    report = night([record("a", 3)], troubles={"t.py::test_other": "assert 1 == 2"})
    assert (report.gate_status, len(report.cells)) == (GateStatus.RED, 1)
    assert report.troubles == {"t.py::test_other": "assert 1 == 2"}


def test_a_night_without_any_cell_has_decided_nothing(golden):
    report = night([])
    assert report.gate_status is GateStatus.NOTHING_DECIDED
    golden(told(report))


# --- what is asked beside a metric ------------------------------------------------------------------------------------


P95 = HistoryKey("a", "p95<=20ms", "1")


def limited(cell, percent=3, *, verdict="within", **more: Any) -> Record:
    """Make a record with a limit beside its metric, that is kept, exceeded or undecided."""
    found = record(cell, percent, **more)
    estimate = {"within": 1.0, "exceeds": 9.0, "inconclusive": 5.0}[verdict]
    limit = Component(
        metric=P95.metric, test_value=estimate / 100, reference_value=0.05, estimate=estimate, low=estimate - 1,
        high=estimate + 1, lower_bound=estimate - 1, upper_bound=estimate + 1, change_unit="pp", sd_epoch=0.01,
        margin="5pp", margin_fraction=0.05, alpha=0.05, verdict=verdict, reasons=(), sentence="", p_exceeds=0.5,
        look=1, epochs=10, limit=P95.metric,
    )  # fmt: skip
    worst = found.verdict if verdict == "within" else verdict
    return replace(found, components=(limit,), verdict=worst).with_metric(found.verdict, (), found.sentence)


def test_a_limit_that_is_kept_is_stored_and_not_shown():
    report = night([limited("a")])
    assert [str(cell.key) for cell in report.cells] == ["a response_time"]
    assert [(cell.key, cell.decision) for cell in report.quiet] == [(P95, GateDecision.WITHIN)]
    document = night_document(report, session="s")
    assert [cell["metric"] for cell in document["cells"]] == [TIME, P95.metric]


def test_a_limit_that_is_no_longer_asked_is_missing():
    expected = [KEY, *(cell.key for cell in night([limited("a")]).quiet)]
    report = night([record("a", 3)], expected=expected)
    assert report.gate_status is GateStatus.SHRUNK
    assert [(cell.key, cell.decision) for cell in report.with_decision(GateDecision.MISSING)] == [
        (P95, GateDecision.MISSING)
    ]
    assert "1 of 1 cell is no longer measured: a p95<=20ms" in report.headline


@pytest.mark.parametrize("percent", [10, 14], ids=["undecided", "flagged"])
def test_a_limit_that_an_unfinished_test_did_not_ask_is_undecided(percent):
    report = night([record("a", percent), record("b", 3)], expected=[KEY, P95])
    assert report.with_decision(GateDecision.MISSING) == ()
    assert P95 in {cell.key for cell in report.with_decision(GateDecision.INCONCLUSIVE)}


def test_a_limit_is_missing_if_fresh_epochs_finished_the_test_without_it():
    report = night([record("a", 14)], [record("a", 3)], expected=[KEY, P95])
    assert [cell.key for cell in report.with_decision(GateDecision.MISSING)] == [P95]


def test_a_limit_of_a_compared_cell_is_no_cell_of_its_own():
    report = night([limited("a", verdict="exceeds"), record("b", 3)], [limited("a", verdict="exceeds")])
    assert "1 of 2 cells is beyond the margin, confirmed in fresh epochs: a p95<=20ms" in report.headline
    assert "1 of 2 cells is within the margin" in report.headline


@pytest.mark.parametrize("screening", [record("a", 14), limited("a", 14)], ids=["not asked", "within"])
def test_a_limit_that_only_the_fresh_epochs_exceed_is_red(screening, golden):
    report = night([screening], [limited("a", verdict="exceeds")], expected=[KEY, P95])
    assert report.gate_status is GateStatus.RED
    assert [(cell.key, cell.decision) for cell in report.cells] == [
        (KEY, GateDecision.WITHIN), (P95, GateDecision.EXCEEDS),
    ]  # fmt: skip
    if screening.components == ():
        golden(told(report))


@pytest.mark.parametrize("verdict", ["within", "inconclusive"])
def test_a_limit_that_the_fresh_epochs_do_not_exceed_is_left_to_the_screening(verdict):
    report = night([limited("a", 14)], [limited("a", verdict=verdict)])
    assert (report.gate_status, decided(report)) == (GateStatus.GREEN, {"a": GateDecision.WITHIN})
    assert [(cell.key, cell.decision) for cell in report.quiet] == [(P95, GateDecision.WITHIN)]


def test_what_only_the_fresh_epochs_exceed_is_accepted_as_others_are():
    accepted = [acceptance(up_to=0.5, metric=P95.metric)]
    report = night([limited("a", 14)], [limited("a", verdict="exceeds")], accepted=accepted)
    assert (report.gate_status, report.cells[1].decision) == (GateStatus.GREEN, GateDecision.ACCEPTED)


def test_an_excess_in_fresh_epochs_that_chance_explains_is_undecided():
    loss, query_loss = (record("a", 0.1, metric=name, margin="0.5pp", sd=0.002) for name in (LOSS, "query_loss"))
    slightly = record("a", 0.62, metric=LOSS, margin="0.5pp", sd=0.002)
    assert slightly.verdict == "exceeds"
    assert slightly.p_exceeds is not None
    assert 0.02 < slightly.p_exceeds < 0.05  # twice that by Holm over the two
    report = night([record("a", 14), loss, query_loss], [record("a", 3), slightly, query_loss])
    assert [cell.key.metric for cell in report.with_decision(GateDecision.INCONCLUSIVE)] == [LOSS]
    assert report.with_decision(GateDecision.EXCEEDS) == ()


def test_a_limit_of_a_cell_without_a_comparison_is_a_cell():
    alone = replace(limited("a"), reference=side(V6), estimate=None, margin="", margin_fraction=None)
    report = night([alone])
    assert [(cell.key, cell.is_beside) for cell in report.cells] == [(P95, False)]
    assert report.quiet == ()


# --- the A/A check ----------------------------------------------------------------------------------------------------


def test_a_night_whose_twins_differ_is_unstable_whatever_else_was_found(golden):
    screen = [record("a", 14), *(twin(number, 1.1) for number in range(4))]
    report = night(screen, [record("a", 14)], expected=[twin(0, 1.1).key])
    assert (report.gate_status, len(report.cells)) == (GateStatus.UNSTABLE, 1)
    golden(told(report))


def test_twins_that_agree_are_no_cells_and_a_night_without_any_says_so():
    report = night([record("a", 3), *(twin(number, 1.0) for number in range(4))])
    assert (report.gate_status, len(report.cells), report.warnings) == (GateStatus.GREEN, 1, ())
    assert night([record("a", 3)]).warnings == (
        "no A/A check: the reference had no twin, so it is unknown whether the environment was stable",
    )


def test_many_cells_are_named_by_the_first_three(golden):
    screen = [record(cell, 14) for cell in "abcde"]
    golden(night(screen, screen).headline)


# --- the page ---------------------------------------------------------------------------------------------------------


def table(header):
    """Return the first two columns of the page's table under that header."""
    lines = PAGE.read_text(encoding="utf-8").partition(f"\n{header}")[2].split("\n\n")[0].splitlines()
    return [tuple(cell.strip() for cell in line.strip("|").split("|")[:2]) for line in lines[2:]]


def test_the_page_tells_all_rulings_and_answers_in_their_order():
    assert [decision for decision, _ in table("| ruling |")] == [decision.value for decision in GateDecision]
    found = [(answer, int(status)) for status, answer in table("| status |")]
    assert found == [(gate_status.word, gate_status.value) for gate_status in ORDER]


def test_the_page_tells_the_levels():
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    design = DESIGNS["nightly"]
    assert f"{design.epochs} epochs of {design.blocks} blocks" in page
    assert f"flags at {100 * design.alpha:g} % a cell" in page
    assert f"{100 * gate.FAMILY_ALPHA:g} % over all flagged cells" in page
    assert f"{100 * gate.HISTORY_ALPHA:g} % over all cells with so many" in page
    assert f"K is at least {gate.MIN_NIGHTS} and at most {MOST_NIGHTS}" in page
    assert f"The weight of the common spread, at most {gate.PRIOR_DF}" in page
    assert f"at least {LEAST_NIGHTS} nights on each side" in page
