"""Tables 3-2, 3-4, 3-6 and 3-8: the increase of each arm over the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.studies.response_time.table import (
    FORMULA,
    DoubtMarks,
    StudyTable,
    by_arm,
    by_connections,
    columns_of,
    conditions,
    counts,
    formula,
    missing,
    name_of,
    nothing_failed,
    place,
    printed_increase,
    row,
    signed,
)
from pytest_ipperf.report.tables.arm_rows import failure_rows
from pytest_ipperf.report.tables.layout import Row


def increases(records: Sequence[Record]) -> StudyTable:
    """Return the table of one protocol."""
    protocol, columns = records[0].protocol, columns_of(records)
    name, known = name_of(protocol, 1, "increases")
    reference = records[0].reference.arm
    rows: list[Row] = [("", [str(count) for count in columns])]
    rows += [(reference.title, []), *failure_rows({each.connections: each.reference for each in records}, columns)]
    figures: list[dict[str, Any]] = []
    marks = DoubtMarks(name)
    for arm, found in by_arm(records).items():
        rows += [(f"{arm.title} against {reference.title}", []), *_increase_rows(found, columns)]
        rows += _printed_rows(found, columns, marks)
        rows += failure_rows({count: record.test for count, record in found.items()}, columns)
        figures += [_increase_figures(name, found[count], arm) for count in columns if count in found]
    title = f"increase of {PROTOCOLS[protocol].title} average response times"
    return StudyTable(
        name=name,
        head=(
            f"Table {name}: {title} in milliseconds and percent, {by_connections(records)}",
            *conditions(records),
        ),
        rows=rows,
        figures=figures,
        notes=[*marks.doubts, *missing(records, known=known)],
    )


def _increase_rows(found: Mapping[int, Record], columns: Sequence[int]) -> list[Row]:
    made = {count: each for count, record in found.items() if (each := formula(record)) is not None}
    return [
        row("  increase", found, columns, lambda record: signed(1000 * (record.test.mean - record.reference.mean))),
        row("  percentage", found, columns, lambda record: f"{_percent(record):+.1f} %"),
        *([] if nothing_failed(found.values()) else [
            row(f"{FORMULA} increase", made, columns, lambda each: signed(1000 * each.increase.estimate)),
            row(f"{FORMULA} percentage", made, columns, lambda each: f"{each.percent:+.1f} %"),
        ]),
        row(f"{FORMULA} confidence", made, columns, lambda each: f"{each.confidence_level} %"),
    ]  # fmt: skip


def _percent(record: Record) -> float:
    return 100 * (record.test.mean / record.reference.mean - 1)


def _printed_rows(found: Mapping[int, Record], columns: Sequence[int], marks: DoubtMarks) -> list[Row]:
    known = {count: each for count, record in found.items() if (each := printed_increase(record)) is not None}
    if not known:
        return []
    arm = next(iter(found.values())).test.arm
    return [
        marks.row("increase", arm, columns, {count: f"{each.increase_ms:+.1f}" for count, each in known.items()}),
        marks.row("percentage", arm, columns, {count: f"{each.percent:+.1f} %" for count, each in known.items()}),
        marks.row("confidence", arm, columns, {count: f"{each.level} %" for count, each in known.items()}),
    ]


def _increase_figures(table: str, record: Record, arm: Arm) -> dict[str, Any]:
    made, printed = formula(record), printed_increase(record)
    return {
        **place(table, [record], arm, record.connections),
        "runs": len(record.test.values),
        "increase_ms": 1000 * (record.test.mean - record.reference.mean),
        "percent": _percent(record),
        "formula_increase_ms": 1000 * made.increase.estimate if made else None,
        "formula_percent": made.percent if made else None,
        "formula_confidence_level": made.confidence_level if made else None,
        "study_increase_ms": printed.increase_ms if printed else None,
        "study_percent": printed.percent if printed else None,
        "study_confidence_level": printed.level if printed else None,
        **counts(record.test),
    }
