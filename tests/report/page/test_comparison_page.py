"""The page of two sessions: cells that moved first, and the figures of both."""

from __future__ import annotations

import dataclasses
import re

import pytest

from pytest_ipperf.core.records.comparison import comparison
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.page.cells.moved import moved_list, ordered
from pytest_ipperf.report.page.comparison_page import comparison_page
from pytest_ipperf.report.page.html.markup import policy
from tests.report.golden.reports import PageText
from tests.report.page.compared import compared, past


@pytest.fixture
def found():
    return compared()


WORSE, BETTER = "lab-http-c10-1k-ipv6", "lab-smtp-c1-1k-ipv6-tunnel"


def test_cells_that_moved_come_first(found):
    cells = [each.now.key.cell for each in ordered(found.differences)]
    assert cells == [WORSE, BETTER, "lab-smtp-c10-1k-ipv6", "lab-http-c1-1k-ipv6"]


def test_the_page_has_the_figures_of_both_sessions_and_loads_nothing(found):
    text = comparison_page(found, "A", "B", {"A": "", "B": "BROKEN OFF: 6 of 12 cells measured"})
    shown = list(PageText(text).lines)
    assert shown[1:3] == ["Session B: BROKEN OFF: 6 of 12 cells measured", "▲worse"]
    assert shown[3].replace("\N{NO-BREAK SPACE}", " ") == (
        "B is worse than A in 1 of 4 cells that both sessions have: HTTP at 10 connections, 1k, IPv6: "
        "+22.5 % [+21.6, +23.5], allowed 10 %; 1 without an answer."
    )
    counts = "2 within, 1 exceeds, 1 inconclusive"
    assert f"{counts}, 1 of those within better by more than its margin." in shown
    (row,) = re.findall(f'<details class="cell [^>]*>(?:(?!</details>).)*{WORSE}<.*?</details>', text)
    row = re.sub("<[^>]*>", "|", row).replace("\N{NO-BREAK SPACE}", " ")
    assert "+2.0 % → +25.0 %" in row
    assert "|+22.5 % [+21.6, +23.5]|" in row
    assert "A: 10.0 → 11.0 ms; B: 10.0 → 11.0 ms" in row
    assert "Only in A: 1" in shown
    assert "<new>" not in text
    assert "&lt;new&gt;" in text
    (rules,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy(rules) in text
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", text)


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (
            (BETTER, "lab-http-c1-1k-ipv6"),
            "B is not worse than A in 2 of 2 cells that both sessions have, and better in 1.",
        ),
        (("lab-http-c1-1k-ipv6",), "B is not worse than A in 1 of 1 cell that both sessions have."),
        (
            ("lab-smtp-c10-1k-ipv6", "lab-http-c1-1k-ipv6"),
            "B is not worse than A in 1 of 2 cells that both sessions have; 1 without an answer.",
        ),
        (
            ("lab-smtp-c10-1k-ipv6",),
            "It is inconclusive whether B is worse than A in the 1 cell that both sessions have.",
        ),
        ((), "There is nothing to compare."),
    ],
)
def test_the_sentence_claims_no_more_than_was_shown(found, kept, words):
    differences = [each for each in found.differences if each.now.key.cell in kept]
    text = comparison_page(dataclasses.replace(found, differences=tuple(differences)), "A", "B", {})
    assert f"<h1>{words}</h1>" in text


def test_a_margin_of_rates_lies_to_the_left_and_differences_of_shares_have_an_axis_of_their_own():
    one, other = past(WORSE, "A", 0), past(WORSE, "B", 0)
    rate = [dataclasses.replace(each, key=HistoryKey("lab-tcp-c1-64k-ipv6", "throughput")) for each in (one, other)]
    share = [
        dataclasses.replace(each, key=HistoryKey("lab-udp-c1-1k-ipv6", "loss"), margin="1pp") for each in (one, other)
    ]
    then, now = ({pair[at].key: pair[at] for pair in (rate, share)} for at in (0, 1))
    shown = moved_list(comparison(now, then, lambda name: METRICS[name].metric).differences).html
    assert len(re.findall(r'class="scale"', shown)) == 2
    lines = shown[shown.index('class="cells"') :]  # below the key
    places = re.findall(r'class="(limit|zero)" x1="([\d.]+)%', lines)
    by_cell = [float(limit) < float(zero) for (_, limit), (_, zero) in zip(places[::2], places[1::2], strict=True)]
    assert sorted(by_cell) == [False, True]
    assert "TCP throughput at 1 stream, 64k, IPv6" in shown


def test_many_cells_that_have_not_moved_are_folded():
    cells = [f"lab-http-c{count}-1k-ipv6" for count in range(1, 40)]
    then = {each.key: each for each in (past(cell, "A", 0) for cell in cells)}
    now = {each.key: each for each in (past(cell, "B", 25 if cell == WORSE else 0) for cell in cells)}
    shown = moved_list(comparison(now, then, lambda name: METRICS[name].metric).differences).html
    assert shown.index(WORSE) < shown.index('<details class="group') < shown.index(cells[0])
    assert "38 cells within" in shown


def test_sessions_without_a_common_cell_say_so(found):
    text = comparison_page(dataclasses.replace(found, differences=()), "A", "B", {})
    assert "The two sessions have no cell in common." in text


def test_twins_are_no_cells_and_the_sessions_have_their_dates():
    cells = (WORSE, WORSE.replace("ipv6", "ipv4-twin"))
    then, now = ({each.key: each for each in (past(cell, name, 0) for cell in cells)} for name in "AB")
    text = comparison_page(comparison(now, then, lambda name: METRICS[name].metric), "A", "B", {})
    assert "B is not worse than A in 1 of 1 cell that both sessions have." in text
    assert "1 within; 1 twin of the reference not counted." in text
    assert "A is session <b>A</b> (1 January 1970, 00:00 UTC), B is session <b>B</b> (1 January 1970" in text
