"""Two sessions to compare: cells that are the same, worse, better and undecided, and one only in each."""

from __future__ import annotations

import math

from pytest_ipperf.core.records.comparison import Comparison, comparison
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.metrics import METRICS

CELLS = {
    "lab-http-c1-1k-ipv6": (0, 0.5, 0.01), "lab-http-c10-1k-ipv6": (2, 25, 0.01),
    "lab-smtp-c1-1k-ipv6-tunnel": (30, 1, 0.01), "lab-smtp-c10-1k-ipv6": (0, 5, 0.2),
}  # fmt: skip
"""Changes in percent of both sessions, and the standard deviation between epochs, by cell."""


def past(cell: str, session: str, percent: float, sd_epoch: float = 0.01) -> HistoryEntry:
    """Return what a session says of a cell's response time."""
    return HistoryEntry(
        key=HistoryKey(cell, "response_time", "1"), session=session, began_at=0.0, change=math.log1p(percent / 100),
        sd_epoch=sd_epoch, epochs=10, test_value=0.011, reference_value=0.01, margin="10%", margin_fraction=0.1,
        header_cost=0.0, verdict="within", fingerprint="f0",
    )  # fmt: skip


def compared() -> Comparison:
    """Return the comparison of session B with session A."""
    then = [*(past(cell, "A", was, sd) for cell, (was, _, sd) in CELLS.items()), past("gone", "A", 0)]
    now = [*(past(cell, "B", is_now, sd) for cell, (_, is_now, sd) in CELLS.items()), past("<new>", "B", 0)]
    one, other = ({each.key: each for each in side} for side in (now, then))
    return comparison(one, other, lambda name: METRICS[name].metric)
