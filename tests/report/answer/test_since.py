"""Since when a cell is worse: the first session that found so after the last one that found it well."""

import dataclasses

import pytest

from pytest_ipperf.core.nightly.report import GateDecision
from pytest_ipperf.report.answer.since import since_text
from pytest_ipperf.report.page import page
from pytest_ipperf.report.terminal.night import lines
from tests.report.forms import session


@pytest.fixture(scope="module")
def slow(factory):
    return factory.application("http", 100, "ipv6", 1.22, spread=0.02)


def past(factory, record, verdicts, **change):
    """Return earlier sessions of these verdicts, by their first letters; those in capitals are not sound."""
    words = {"w": "within", "e": "exceeds", "i": "inconclusive", "u": "unjudged"}
    entries = factory.past_of(record, len(verdicts), level=0.02, spread=0.0)
    return [
        dataclasses.replace(each, verdict=words[letter.lower()], sound=letter.islower(), fingerprint="f1", **change)
        for each, letter in zip(entries, verdicts, strict=True)
    ]


def told(factory, record, verdicts, decision=None):
    entries = past(factory, record, verdicts)
    night = factory.night_summary().night if decision else None
    return since_text(record, session([record], histories={record.key: entries}, night=night, saved="main"), decision)


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ("www", "new in this session; session night-02 (21 November 2026, 01:00 UTC) did not find it worse (+2.0 %)"),
        (
            "wwi",
            "first found beyond its margin in this session; session night-01 (20 November 2026, 01:00 UTC) did not",
        ),
        ("iuu", "first found beyond its margin in this session; no earlier session found it within its margin"),
        ("wwe", "beyond its margin since session night-02 (21 November 2026, 01:00 UTC); session night-01 ("),
        (
            "wee",
            "beyond its margin since session night-01 (20 November 2026, 01:00 UTC), and so in each of the last 2",
        ),
        ("ewe", "beyond its margin since session night-02 (21 November 2026, 01:00 UTC); session night-01 ("),
        (
            "weiue",
            "beyond its margin since session night-01 (18 November 2026, 01:00 UTC), and so in 2 of the last 3 ",
        ),
        (
            "ee",
            "beyond its margin since session night-00 (20 November 2026, 01:00 UTC), and so in each of the last 2",
        ),
    ],
)
def test_a_cell_is_worse_since_the_first_session_that_found_so_after_the_last_that_did_not(
    factory, slow, verdicts, words
):
    assert told(factory, slow, verdicts).startswith(words)


@pytest.mark.parametrize(
    ("verdicts", "decision", "words"),
    [
        # What a night flagged and did not confirm, and what was accepted, it did not find worse.
        ("wwe", GateDecision.EXCEEDS, "first found beyond its margin tonight; night night-01 (20 November 2026"),
        ("wEE", GateDecision.EXCEEDS, "beyond its margin since night night-01 (20 November 2026"),
        ("wwe", GateDecision.ACCEPTED, "beyond its margin since night night-02 (21 November 2026"),
        # A cell may be worse than its history and within its margin.
        ("wWW", GateDecision.WORSE, "worse than its history since night night-01 (20 November 2026"),
        ("www", GateDecision.WORSE, "new tonight; night night-02 (21 November 2026"),
    ],
)
def test_a_night_counts_what_nights_decided(factory, slow, verdicts, decision, words):
    assert told(factory, slow, verdicts, decision).startswith(words)


def test_a_change_of_hosts_is_named_if_it_came_with_it(factory, slow):
    entries = past(factory, slow, "wwe")
    entries[0] = dataclasses.replace(entries[0], fingerprint="f0")
    hosts = "; the hosts or the server changed with it"
    assert hosts not in since_text(slow, session([slow], histories={slow.key: entries}))
    entries[1] = dataclasses.replace(entries[1], fingerprint="f0")
    assert since_text(slow, session([slow], histories={slow.key: entries})).endswith(hosts)
    new = dataclasses.replace(slow, fingerprint="f2")
    assert since_text(new, session([new], histories={new.key: entries[:2]})).endswith(hosts)


def test_commits_are_named_where_they_are_known(factory, slow):
    entries = past(factory, slow, "wwe")
    entries[1] = dataclasses.replace(entries[1], commit="4f2a91c7b0de" + 28 * "0")
    entries[2] = dataclasses.replace(entries[2], commit=40 * "a" + "-dirty")
    found = since_text(slow, session([slow], histories={slow.key: entries}))
    assert "night-02 (21 November 2026, 01:00 UTC, commit aaaaaaaaaaaa-dirty); session night-01 (" in found
    assert "01:00 UTC, commit 4f2a91c7b0de) did not find it worse" in found
    question = {"commit": 40 * "b", "dirty": False}
    new = since_text(slow, session([slow], histories={slow.key: entries[:2]}, question=question))
    assert new.startswith("new in this session (at commit bbbbbbbbbbbb); session night-01 (")


def test_another_margin_then_is_named(factory, slow):
    entries = past(factory, slow, "w", margin_fraction=0.25)
    found = since_text(slow, session([slow], histories={slow.key: entries}))
    assert found.endswith("did not find it worse (+2.0 %, then allowed 25 %)")


def test_without_a_history_the_page_says_how_to_get_one(slow):
    told_ = since_text(slow, session([slow]))
    for words in ("--ipperf-save=NAME", f"pytest-ipperf show {slow.cell}", "pytest-ipperf compare last"):
        assert words in told_
    assert since_text(slow, session([slow], saved="main")) == "this is the first session named main that measured it"


def test_the_terminal_tells_it_too(factory):
    night = factory.night_summary()
    told_ = [line for line in lines(night.night, None, night) if "; new tonight; night night-39 (" in line]
    assert [line.partition(": ")[0] for line in told_] == ["exceeds, confirmed", "worse, and accepted"]


def test_a_nights_page_tells_it_of_every_worse_cell_above_all(factory):
    text = page(factory.night_summary())
    head = text[: text.index("<nav")]
    assert head.count("Since when: </b>new tonight; night night-39 (") == 2  # one is accepted
    assert "nothing worse is shown" not in head
    assert "it is worse by " in head
