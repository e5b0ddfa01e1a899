"""Tables 3-1 to 3-8 and 6-1 of paper 000, in their shape: our figures beside those that the study printed.

Ours are restricted means. Rows of their own, labelled so, show the results of the study's formulas for our runs, over
completed connections only, with the true coverage of the formulas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.response_time.averages import averages
from pytest_ipperf.report.studies.response_time.differences import differences
from pytest_ipperf.report.studies.response_time.increases import increases
from pytest_ipperf.report.studies.response_time.table import StudyTable, nothing_failed, rank
from pytest_ipperf.report.tables.arm_rows import client_notes, quantile_notes
from pytest_ipperf.report.tables.network_notes import link_rate_notes

__all__ = ["StudyTable", "study_notes", "study_tables"]


def study_tables(records: Iterable[Record]) -> list[StudyTable]:
    """Return all tables of these records: two for each protocol, and one of the differences of all protocols."""
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    beds: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.testbed, record.client, rank(record), record.payload_bytes, record.server].append(record)
        beds[record.testbed, record.client].append(record)
    found = [table for key in sorted(groups) for table in (averages(groups[key]), increases(groups[key]))]
    return found + [differences(beds[key]) for key in sorted(beds)]


def study_notes(records: Sequence[Record]) -> list[str]:
    """Return the notes that explain the rows of all tables."""
    first = records[0]
    same = " (none failed: the same means)" if nothing_failed(records) else ""
    counted = f"{len(first.test.values)} runs of one burst each, the warm-up left out"
    return [
        f"mean: of {counted}; a failed connection counts as {seconds_text(first.deadline_s)}.",
        f"study's formula: of these runs, over completed connections alone{same}. What it",
        "calls a 95 % interval truly covers 91.8 % for a mean of 10 runs and 90 % for a difference; its",
        "confidence is one-sided, so that 50 % means nothing. This design never judges.",
        "study's figure: printed in paper 000, of its own hosts at 100 Mbit/s; compare how arms and levels",
        "relate, not milliseconds. An asterisk marks what contradicts other figures of the study.",
        "dns / connect / first byte: medians over completed connections, each since the connection's start.",
        *quantile_notes(records),
        *client_notes(records),
        *link_rate_notes(records),
    ]
