"""The answer of a session in one plain sentence, which claims nothing that was not shown."""

import dataclasses
import shlex
from pathlib import Path

import pytest

from pytest_ipperf.core.nightly.report import GateDecision
from pytest_ipperf.core.nightly.session_summary import SessionSummary, Trouble
from pytest_ipperf.plugin.options import declarations
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.answer.next_step import look_closer, next_step, reproduce_command
from pytest_ipperf.report.answer.phases import phases_text
from pytest_ipperf.report.answer.sentence import plain_answer
from pytest_ipperf.report.answer.slower_phase import slower_phase
from pytest_ipperf.report.answer.values import arrow_text, instead_text, note_on_change, value_pair


def cells(factory, *places, **change):
    return [
        factory.application(protocol, count, arm, ratio, spread=spread, **change)
        for protocol, count, arm, ratio, spread in places
    ]


FAST = (("http", 1, "ipv6", 1.0, 0.02), ("smtp", 10, "ipv6", 1.0, 0.02))
SLOW = ("http", 100, "ipv6", 1.22, 0.02)
OPEN = ("smtp", 100, "ipv6", 1.07, 0.2)


@pytest.mark.parametrize(
    ("places", "verdict", "words"),
    [
        (FAST, "within", "IPv6 is as fast as IPv4 for HTTP and SMTP: all 2 cells are within their margin."),
        (FAST[:1], "within", "IPv6 is as fast as IPv4 for HTTP, within its margin: "),
        ((*FAST, SLOW), "exceeds", "IPv6 is as fast as IPv4 for HTTP and SMTP, except HTTP at 100 connections: "),
        ((SLOW,), "exceeds", "IPv6 is not as fast as IPv4 for HTTP: 6"),
        (
            (*FAST, OPEN),
            "inconclusive",
            "IPv6 is as fast as IPv4 for HTTP and SMTP in 2 of 3 cells; inconclusive is SMTP at",
        ),
        ((OPEN,), "inconclusive", "It is inconclusive whether IPv6 is as fast as IPv4 for SMTP: 1"),
        ((), "", "Nothing was measured."),
    ],
)
def test_the_answer_is_one_sentence(factory, places, verdict, words):
    found = plain_answer(cells(factory, *places))
    assert found.verdict == verdict
    assert found.sentence.startswith(words)
    assert found.sentence.endswith(".")


def test_a_cell_that_is_worse_is_named_with_both_values_its_change_and_what_is_allowed(factory):
    found = plain_answer(cells(factory, *FAST, SLOW))
    record = cells(factory, SLOW)[0]
    assert f"{instead_text(record)} (+" in found.sentence
    assert found.sentence.endswith(" %, allowed 10 %).")


def test_of_many_cells_that_are_worse_the_worst_is_named_and_the_others_are_counted(factory):
    places = [("http", count, "ipv6", 1.2 + count / 100, 0.02) for count in (10, 20, 30, 40)]
    sentence = plain_answer(cells(factory, *places)).sentence
    assert sentence.startswith("IPv6 is not as fast as IPv4 for HTTP in all 4 cells, worst HTTP at 40 connections: ")
    beside = plain_answer(cells(factory, *places, FAST[1])).sentence
    assert "for SMTP, except HTTP at 40 connections: " in beside
    assert beside.endswith(" and 3 other cells.")
    (open_,) = cells(factory, OPEN)
    left = plain_answer([*cells(factory, *places[:2]), open_]).sentence
    assert left.startswith("IPv6 is not as fast as IPv4 for HTTP in 2 of 3 cells, worst HTTP at 20 connections: ")
    assert left.endswith("; 1 inconclusive.")


@pytest.mark.parametrize("verdict", ["within", "exceeds"])
def test_of_a_cell_that_was_asked_for_limits_or_tails_alone_nothing_is_said_of_its_speed(factory, verdict):
    """It may be three times as slow and keep them."""
    (slow,) = (each.with_metric("measured", (), "") for each in cells(factory, SLOW))
    slow = dataclasses.replace(slow, verdict=verdict)
    sentence = plain_answer([slow]).sentence
    assert sentence.startswith(f"IPv6 {'keeps' if verdict == 'within' else 'does not keep'} the limits of HTTP")
    beside = plain_answer([slow, *cells(factory, FAST[1])]).sentence
    assert beside.startswith("IPv6 is as fast as IPv4 for SMTP, within its margin")
    assert "the limits of HTTP" in beside


def test_an_arm_has_one_name_everywhere(factory):
    """Those of the ids, as tables, Allure and exports have them."""
    found = cells(factory, *[("http", 1, arm, 1.0, 0.02) for arm in ("ipv6", "ipv6-tunnel", "ipv6-isatap")])
    assert plain_answer(found).sentence.startswith("IPv6, IPv6 tunnel and IPv6 isatap are as fast as IPv4 for HTTP")
    assert [Names(found).cell(each) for each in found] == ["HTTP, IPv6", "HTTP, IPv6 tunnel", "HTTP, IPv6 isatap"]


def test_an_undecided_cell_is_never_part_of_the_claim(factory):
    """The all-clear for SMTP must not cover the SMTP cell without a decision."""
    sentence = plain_answer(
        cells(factory, *FAST, OPEN, *[("smtp", n, "ipv6", 1.0, 0.02) for n in range(2, 8)])
    ).sentence
    assert "in 8 of 9 cells" in sentence
    assert sentence.endswith("; 1 inconclusive.")


def test_twins_are_no_part_of_the_answer(factory):
    assert plain_answer(cells(factory, ("http", 1, "ipv4-twin", 2.0, 0.01))).sentence == "Nothing was judged."


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ((), "margin."),
        (("infrastructure",), "margin; 1 test has no answer."),
        (("inconclusive", "invalid"), "margin; 2 tests have no answer."),
        (("unmeasured",), "margin."),  # the banner of a broken-off session counts them
    ],
)
def test_tests_without_an_answer_are_no_part_of_the_claim(factory, kinds, words):
    lost = [Trouble(nodeid=f"t.py::{kind}", kind=kind, sentence="why") for kind in kinds]
    assert plain_answer(cells(factory, *FAST), lost).sentence.endswith(words)


def test_a_test_that_failed_after_its_answer_is_counted_as_such(factory):
    found = cells(factory, *FAST)
    failed = Trouble(nodeid=found[0].nodeid, kind="failed", sentence="assert 1 == 2")
    assert plain_answer(found, [failed]).sentence.endswith("margin; 1 test failed for another reason.")


def test_options_of_the_next_step_have_the_values_that_pytest_asks_for(factory):
    places = ((*FAST, SLOW), (OPEN,))
    steps = [next_step(summary(cells(factory, *each))) for each in places]
    declared = {name: values for name, values, *_ in (*declarations.SETTINGS, *declarations.FILTERS)}
    for step in steps:
        for name, _, value in (each.partition("=") for each in shlex.split(step) if each.startswith("--ipperf-")):
            assert value
            assert name not in declared or "|" not in declared[name] or value in declared[name].split("|")


def test_a_design_that_never_judges_gives_no_verdict(factory):
    (record,) = cells(factory, SLOW, judges=False, verdict="unjudged", design="smoke")
    found = plain_answer([record])
    assert found.verdict == "unjudged"
    assert found.sentence.startswith("IPv6 against IPv4, measured without a verdict: HTTP: ")
    assert "[" not in found.sentence


def test_several_testbeds_stand_in_the_name(factory):
    one = factory.application("http", 100, "ipv6", 1.22, spread=0.02)
    other = dataclasses.replace(one, testbed="office", cell=one.cell.replace("lab.100mbit", "office"))
    names = Names([one, other])
    assert names.cell(one) == "HTTP on testbed lab.100mbit"
    assert names.cell(other) == "HTTP on testbed office"


def test_values_are_those_that_the_change_belongs_to(factory):
    """Where a few runs dominate the means, the means would contradict the change."""
    (record,) = cells(factory, FAST[0])
    far = dataclasses.replace(record, estimate=300.0, lower_bound=250.0, upper_bound=350.0, reference_typical=0.008)
    assert value_pair(far) == pytest.approx((0.008, 0.032))
    assert arrow_text(far) == "8.00 → 32.0 ms"
    assert value_pair(record) == (record.reference.mean, record.test.mean)


def summary(records, **change):
    arguments = ["suites", "-m", "smtp or http", "--testbed=lab.100mbit", "--design=nightly", "--ipperf-seed=3"]
    made = SessionSummary(
        name="s", folder=Path("/r/s"), began_at=0.0, seconds=9.0, question={"arguments": arguments},
        records=tuple(records),
    )  # fmt: skip
    return dataclasses.replace(made, **change)


def test_the_next_step_is_a_command_for_what_is_open(factory):
    assert next_step(summary(cells(factory, *FAST))) == ""
    assert next_step(summary(cells(factory, *FAST, SLOW))).endswith("--lf --ipperf-confirm=yes")
    assert next_step(summary(cells(factory, OPEN))).endswith("--lf --design=standard")
    assert "-m 'smtp or http' --testbed=lab.100mbit" in next_step(summary(cells(factory, OPEN)))


def test_the_change_beside_two_values_is_explained_where_it_stands(factory):
    record, other = cells(factory, SLOW, FAST[0])
    sentence = plain_answer([record, other]).sentence
    note = note_on_change(sentence, [record, other])
    assert note.startswith("The two values are means of all runs; the change in % is the typical one between runs of")
    far = dataclasses.replace(record, estimate=300.0, lower_bound=250.0, upper_bound=350.0, reference_typical=0.008)
    assert "(where these contradict the change, typical values)" in note_on_change(sentence, [far, other])
    assert note_on_change(sentence, [far]) == "", "both values are typical ones, which the change belongs to"
    for without in ("IPv6 is as fast as IPv4 for HTTP: all 2 cells are within their margin.",
                    "HTTP failed connections: 4 instead of 1 % (+3.0 pp, allowed 1 pp)"):  # fmt: skip
        assert note_on_change(without, [record]) == ""


def phased(record, reference, test):
    """Return a record with these phases of its arms, in ms since the start."""
    names = ("dns", "connect", "first_byte", "total")
    one, other = ({name: each / 1000 for name, each in zip(names, times, strict=False)} for times in (reference, test))
    return dataclasses.replace(
        record,
        reference=dataclasses.replace(record.reference, phases=one),
        test=dataclasses.replace(record.test, phases=other),
    )


@pytest.mark.parametrize(
    ("test", "sentence", "where"),
    [
        ((1, 2, 18.2, 20.2), "the first byte came 8.2 ms later, dns, connect and the rest took about as long",
         "the server"),
        ((1, 10, 18, 20), "connect took 8 ms longer, dns, first byte and the rest took about as long",
         "the path and the server's queue of connections"),
        ((1, 2, 10, 20), "what follows the first byte took 8 ms longer, dns, connect and first byte took about",
         "the server's later answers and the transfer"),
        ((4, 8, 18, 23), "", ""),  # no phase took most of it
        ((1, 2, 9, 11), "", ""),  # the phases lost nothing
    ],
)  # fmt: skip
def test_the_phase_that_took_the_time_is_named_if_the_phases_say_it(factory, test, sentence, where):
    (record,) = cells(factory, SLOW)
    found, place = slower_phase(phased(record, (1, 2, 10, 12), test))
    assert found.startswith(sentence) if sentence else not found
    assert place == where


def test_phases_are_since_the_start_and_in_one_unit(factory):
    (record,) = cells(factory, SLOW)
    text = phases_text(phased(record, (0.4, 0.9, 10, 12), (0.4, 1.1, 18, 20)))
    assert text == (
        "medians since the start of a connection: dns 0.400 → 0.400 ms, connect 0.900 → 1.10 ms, "
        "first byte 10.0 → 18.0 ms, total 12.0 → 20.0 ms"
    )
    at_once = phases_text(phased(record, (1, 2, 10, 10.01), (1, 2, 18, 18.02)))
    assert at_once.endswith("total 10.0 → 18.0 ms; the rest of the reply came with its first byte")
    assert phases_text(phased(record, (), ())) == ""


def test_a_metric_that_is_no_time_names_no_phase(factory):
    (record,) = cells(factory, SLOW)
    assert slower_phase(dataclasses.replace(record, metric="failed_share")) == ("", "")


def test_a_confirmed_cell_comes_before_the_undecided_ones(factory):
    worst, open_ = cells(factory, SLOW, OPEN)
    slow = phased(worst, (1, 2, 10, 12), (1, 2, 18.2, 20.2))
    assert look_closer(summary([slow, open_])) == "", "nothing has confirmed it"
    question = {"arguments": ["suites", "--ipperf-confirm=yes", "--ipperf-capture=20"], "confirm": "yes"}
    confirmed = summary([slow, open_], question=question)
    assert look_closer(confirmed).startswith("Look closer at HTTP: the first byte came 8.2 ms later, dns")
    assert look_closer(confirmed).endswith("look at the server, then at the captures")
    assert next_step(confirmed).endswith("--lf --design=standard")
    uncaptured = summary([slow, open_], question={"arguments": ["suites"], "confirm": "yes"})
    assert look_closer(uncaptured).endswith("look at the server")
    silent = summary([phased(worst, (1, 2, 10, 12), (1, 2, 10, 12)), open_], question=question)
    assert look_closer(silent).startswith("Look closer at HTTP: its card has its runs and failures, and the command")


def test_after_a_red_night_a_cell_is_repeated_or_accepted(factory):
    night = factory.night_summary()
    (red,) = night.night.with_decision(GateDecision.EXCEEDS)
    assert next_step(night).endswith(f": pytest-ipperf accept {red.key.cell} --reason TEXT")
    green = dataclasses.replace(night.night, cells=())
    assert next_step(dataclasses.replace(night, night=green)) == ""


def test_a_cell_is_reproduced_by_its_node_id_its_design_and_its_seed(factory):
    (record,) = cells(factory, SLOW)
    made = summary([record])
    of_night = ["--ipperf-exceeds=flag", "--ipperf-outcome=/tmp/x/outcome.json", *made.question["arguments"]]
    assert reproduce_command(record, summary([record], question={"arguments": of_night})) == reproduce_command(
        record, made
    )
    command = shlex.split(reproduce_command(record, made))
    assert command == ["pytest", record.nodeid, "--testbed=lab.100mbit", "--design=nightly", "--ipperf-seed=7"]
    assert reproduce_command(dataclasses.replace(record, nodeid=""), summary([record])) == ""
