"""The page of two sessions: cells that moved first, and the figures of both."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest

from pytest_ipperf.core.records.comparison import comparison
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.page.comparison_page import comparison_page, ordered
from pytest_ipperf.report.page.html.markup import POLICY
from tests.report.golden.reports import PageText


def past(cell, session, percent, sd_epoch=0.01):
    return HistoryEntry(
        key=HistoryKey(cell, "response_time", "1"), session=session, began_at=0.0, change=math.log1p(percent / 100),
        sd_epoch=sd_epoch, epochs=10, test_value=0.011, reference_value=0.01, margin="10%", margin_fraction=0.1,
        header_cost=0.0, verdict="within", fingerprint="f0",
    )  # fmt: skip


@pytest.fixture
def found():
    then = [past("same", "A", 0), past("worse", "A", 2), past("better", "A", 30), past("wide", "A", 0, 0.2),
            past("gone", "A", 0)]  # fmt: skip
    now = [past("same", "B", 0.5), past("worse", "B", 25), past("better", "B", 1), past("wide", "B", 5, 0.2),
           past("<new>", "B", 0)]  # fmt: skip
    one, other = ({each.key: each for each in side} for side in (now, then))
    return comparison(one, other, lambda name: METRICS[name].metric)


def test_cells_that_moved_come_first(found):
    assert [each.now.key.cell for each in ordered(found.differences)] == ["worse", "better", "wide", "same"]


def test_the_page_has_the_figures_of_both_sessions_and_loads_nothing(found):
    text = comparison_page(found, "A", "B", {"A": "", "B": "BROKEN OFF: 6 of 12 cells measured"})
    shown = list(PageText(text).lines)
    assert shown[0] == "Session B compared with A"
    counts = "2 within margin, 1 exceeds margin, 1 not enough evidence"
    assert shown[1] == f"{counts}, 1 of those within better by more than its margin."
    (worse,) = [line for line in shown if "worse response_time" in line and line.startswith("▲")]
    assert "10.0 -> 11.0 ms | +2.0 % | 10.0 -> 11.0 ms | +25.0 %" in worse
    assert re.search(r"\+22\.5 % \[\+\d", worse)
    assert "session B: BROKEN OFF: 6 of 12 cells measured" in shown
    assert "Only in A: 1" in shown
    assert "<new>" not in text
    assert "&lt;new&gt;" in text
    assert POLICY in text
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", text)


def test_sessions_without_a_common_cell_say_so(found):
    text = comparison_page(dataclasses.replace(found, differences=()), "A", "B", {})
    assert "The two sessions have no cell in common." in text
