"""Table 6-1: the intervals of all differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.studies.response_time.formulas import StudyIncrease
from pytest_ipperf.report.studies.response_time.printed import DIFFERENCES
from pytest_ipperf.report.studies.response_time.table import (
    FORMULA,
    DoubtMarks,
    StudyTable,
    by_arm,
    by_connections,
    client_of,
    columns_of,
    counts,
    formula,
    interval_ms,
    place,
    printed_increase,
    rank,
    row,
    signed,
)
from pytest_ipperf.report.tables.arm_rows import failure_rows, reused_lines
from pytest_ipperf.report.tables.layout import Row
from pytest_ipperf.report.tables.network_notes import testbed_text


def differences(records: Sequence[Record]) -> StudyTable:
    """Return the table of all protocols."""
    columns = columns_of(records)
    rows: list[Row] = [("", [str(count) for count in columns])]
    figures: list[dict[str, Any]] = []
    taken: dict[str, None] = {}
    marks = DoubtMarks(DIFFERENCES)
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        groups[rank(record), record.payload_bytes, record.server].append(record)
    several = len(groups) > len({record.protocol for record in records})
    for key in sorted(groups):
        own = groups[key]
        taken |= dict.fromkeys(f"{PROTOCOLS[own[0].protocol].title} {line}" for line in reused_lines(own))
        rows += _difference_rows(own, columns, several=several, marks=marks)
        figures += [
            _difference_figures(found[count], arm)
            for arm, found in by_arm(own).items()
            for count in columns
            if count in found
        ]
    first = records[0]
    return StudyTable(
        name=DIFFERENCES,
        head=(
            f"Table {DIFFERENCES}: intervals for differences in milliseconds, {by_connections(records)}",
            f"{testbed_text(records)}, client {client_of(first)}",
            "the study calls them 95 % intervals, and they cover 90 %",
            *taken,
        ),
        rows=rows,
        figures=figures,
        notes=marks.doubts,
    )


def _difference_rows(
    records: Sequence[Record], columns: Sequence[int], *, several: bool, marks: DoubtMarks
) -> list[Row]:
    first = records[0]
    title = PROTOCOLS[first.protocol].title
    if several:
        title = f"{title}, {bytes_text(first.payload_bytes)}, {first.server}"
    reference = first.reference.arm
    own = {record.connections: record.reference for record in records}
    rows: list[Row] = [(f"{title}: {reference.title}", []), *failure_rows(own, columns)]
    for arm, found in by_arm(records).items():
        made = {count: each for count, record in found.items() if (each := formula(record)) is not None}
        known = {count: printed for count, record in found.items() if (printed := printed_increase(record)) is not None}
        rows.append((f"{title}: {arm.title} - {reference.title}", []))
        rows.append(row(f"{FORMULA} interval (90 %)", made, columns, _difference_text))
        if known:
            texts = {count: f"{each.low_ms:+.2f} to {each.high_ms:+.2f}" for count, each in known.items()}
            rows.append(marks.row("interval", arm, columns, texts, first.protocol))
        rows += failure_rows({count: record.test for count, record in found.items()}, columns)
    return rows


def _difference_text(made: StudyIncrease) -> str:
    return f"{signed(1000 * made.increase.low)} to {signed(1000 * made.increase.high)}"


def _difference_figures(record: Record, arm: Arm) -> dict[str, Any]:
    made, printed = formula(record), printed_increase(record)
    return {
        **place(DIFFERENCES, [record], arm, record.connections),
        "runs": len(record.test.values),
        **interval_ms("formula_difference_ms", made.increase if made else None),
        "study_low_ms": printed.low_ms if printed else None,
        "study_high_ms": printed.high_ms if printed else None,
        **counts(record.test),
    }
