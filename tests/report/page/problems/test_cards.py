"""Cards of the cells that are not green: the evidence for each, and what to do with it."""

import dataclasses
import re
from pathlib import Path

import pytest

from pytest_ipperf.core.design.question import FAILED_SHARE
from pytest_ipperf.core.nightly.report import CellReport, GateDecision
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.first_estimate import FirstEstimate
from pytest_ipperf.report.page import page
from pytest_ipperf.report.page.html.markup import anchor
from pytest_ipperf.report.page.problems.card import card_id
from pytest_ipperf.report.page.problems.cards import problems
from pytest_ipperf.report.page.problems.evidence import captures_of, failures_text, trust_text
from pytest_ipperf.report.tables.component_rows import component_text


def summary_of(records, folder=Path("/r/s"), **change):
    made = SessionSummary(
        name="s", folder=folder, began_at=0.0, seconds=9.0, question={"arguments": ["suites", "--testbed=lab.100mbit"]},
        records=tuple(records),
    )  # fmt: skip
    return dataclasses.replace(made, **change)


@pytest.fixture
def slow(factory):
    return factory.application("http", 100, "ipv6", 1.22, spread=0.02)


def test_problems_are_what_is_not_green_the_worst_first(factory, slow):
    worse = factory.application("smtp", 100, "ipv6", 1.5, spread=0.02)
    open_ = factory.application("smtp", 10, "ipv6", 1.07, verdict="inconclusive")
    twin = dataclasses.replace(slow, twin=True, cell="lab.100mbit-http-c100-1k-ipv4-twin")
    green = factory.application("http", 1, "ipv6", 1.0)
    found = problems([green, open_, slow, twin, worse], None)
    assert [each.record for each in found] == [worse, slow, open_]


def test_in_a_night_problems_are_its_decisions_those_without_data_too(factory):
    night = factory.night_summary()
    found = problems(night.records, night.night)
    assert [each.word for each in found] == [
        "exceeds, confirmed", "no longer measured", "worse, and accepted", "inconclusive",
    ]  # fmt: skip
    assert found[1].record is None
    assert "HTTP at 100 connections, screening: distribution of response times" in page(night)
    text = page(night)
    assert all(f'id="{card_id(each.key)}"' in text for each in found)


def test_a_card_has_the_evidence_and_the_command_that_repeats_it(factory, slow):
    past = factory.past_of(slow, 40, level=0.0)
    summary = summary_of([slow], samples=factory.samples_of([slow]), histories={slow.key: past})
    text = page(summary)
    start = text.index(f'id="{card_id(slow.key)}"')
    card = re.sub("</?span>", "", text[start : text.index("</section>", start)])
    for words in (
        "Every run, in the order of measurement", "HTTP: distribution of response times",
        "change over 41 sessions", "new in this session; session night-39 (21 November 2026, 01:00 UTC) did not find",
        "lies outside the 40 before it, between",
        "30 runs of each arm in 10 epochs", "<dt>Failures</dt><dd>0 of 18000 attempts failed",
        "A/A check: none, as the reference had no twin", "--design=nightly --ipperf-seed=7",
    ):  # fmt: skip
        assert words in card
    assert card.count("<use ") > 60, "a dot for each run of both arms"


def test_a_lasting_change_is_dated(factory, slow):
    past = factory.past_of(slow, 40, level=0.1, changed=25)
    text = page(summary_of([slow], histories={slow.key: past}))
    assert re.search(r"a lasting change of \+\d.* begins at session night-25 \(07 November 2026\)", text)


def test_where_no_lasting_change_was_found_none_is_denied(factory, slow):
    """A cell is beyond its margin long before a change-point test of few sessions can say so."""
    entries = factory.past_of(slow, 3, spread=0.0)
    past = [dataclasses.replace(each, change=each.change + 0.01 * (at - 1)) for at, each in enumerate(entries)]
    text = page(summary_of([slow], histories={slow.key: past}))
    card = text[text.index(f'id="{card_id(slow.key)}"') : text.index("</main>")]
    assert "lies among the 3 before it, between" in card
    assert "lasting change of" not in card
    assert "no shift" not in text


def test_failures_and_notes_speak_against_a_figure(factory, slow):
    failed = dataclasses.replace(slow.test, failed={"connect: refused": 12}, notes=("the clock moved by 3 ms.",))
    record = dataclasses.replace(slow, test=failed)
    assert failures_text(record, None) == "IPv6: 12 of 9000 attempts failed (12 connect: refused)"
    text = trust_text(record, summary_of([record]))
    assert "the clock moved by 3 ms" in text


def test_captures_of_both_arms_are_linked_relative_to_the_page(slow, tmp_path):
    folder = tmp_path / "captures"
    folder.mkdir()
    for arm in ("ipv4", "ipv6", "ipv6-tunnel"):
        (folder / f"lab.100mbit-http-c100-1k-{arm}-client.pcap").write_bytes(b"x" * 1500)
    assert [file.name for file in captures_of(slow, tmp_path)] == [
        "lab.100mbit-http-c100-1k-ipv4-client.pcap", "lab.100mbit-http-c100-1k-ipv6-client.pcap",
    ]  # fmt: skip
    text = page(summary_of([slow], tmp_path))
    assert text.count('href="captures/lab.100mbit-http-c100-1k-ipv6-client.pcap"') == 3, (
        "in the card, the line of the cell and the files"
    )
    assert "1.5 kB" in text


def test_of_many_problems_one_is_open_and_the_others_are_lines(factory):
    records = [factory.application("http", count, "ipv6", 1.3, spread=0.02) for count in range(1, 31)]
    text = page(summary_of(records))
    assert len(re.findall(r'<details class="card bad"', text)) == 20
    assert len(re.findall(r'<details class="card bad"[^>]* open=""|<details class="card bad" open=""', text)) == 1
    assert "10 more are in the list of " in text
    assert all(f'id="{anchor(record.key)}"' in text for record in records)


def test_a_session_without_problems_has_no_section_of_them(factory):
    assert 'id="problems"' not in page(summary_of([factory.application("http", 1, "ipv6", 1.0)]))


def test_figures_of_fresh_epochs_stand_beside_those_of_the_first(slow):
    first = FirstEstimate(
        estimate=19.7, lower_bound=12.0, upper_bound=28.0, alpha=0.05, epochs=6, level=0.01, sentence="seemed beyond"
    )
    text = trust_text(dataclasses.replace(slow, estimate=40.4, confirms=first), summary_of([slow]))
    assert "; first epochs +19.7 %, fresh epochs +40.4 %; the verdict uses the fresh ones; " in text
    assert "fresh" not in trust_text(slow, summary_of([slow]))


def test_a_nights_card_has_the_share_of_failures_with_its_interval(factory, slow):
    night = factory.night_summary()
    part = next(each for each in factory.failing(slow, 0.002).parts() if each.metric == FAILED_SHARE)
    (red,) = night.night.with_decision(GateDecision.EXCEEDS)
    key = red.key._replace(metric=FAILED_SHARE)
    beside = CellReport(key=key, decision=GateDecision.WITHIN, sentence="within", screen=part, is_beside=True)
    found = dataclasses.replace(night, night=dataclasses.replace(night.night, cells=(*night.night.cells, beside)))
    assert f"<dt>Failures</dt><dd>0 of 18000 attempts failed; {component_text(part)}</dd>" in page(found)
