"""Tables 3-1, 3-3, 3-5 and 3-7: the average of each arm, with its interval."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.portable.units import milliseconds_text
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import Interval
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.studies.response_time.formulas import study_mean_interval
from pytest_ipperf.report.studies.response_time.printed import MEANS
from pytest_ipperf.report.studies.response_time.table import (
    FORMULA,
    NONE,
    DoubtMarks,
    StudyTable,
    by_arm,
    by_connections,
    columns_of,
    conditions,
    counts,
    interval_ms,
    missing,
    name_of,
    nothing_failed,
    place,
    row,
)
from pytest_ipperf.report.tables.arm_rows import rows_of_arm
from pytest_ipperf.report.tables.layout import Row


def averages(records: Sequence[Record]) -> StudyTable:
    """Return the table of one protocol."""
    protocol, columns = records[0].protocol, columns_of(records)
    name, known = name_of(protocol, 0, "averages")
    rows: list[Row] = [("", [str(count) for count in columns])]
    figures: list[dict[str, Any]] = []
    marks = DoubtMarks(name)
    for arm, sides in _sides(records).items():
        rows += [(arm.title, []), *_mean_rows(sides, columns, whole=nothing_failed(records))]
        rows += _printed_means(protocol, arm, columns, marks)
        rows += rows_of_arm(sides, columns)
        figures += [_mean_figures(name, records, arm, count, sides[count]) for count in columns if count in sides]
    title = f"{PROTOCOLS[protocol].title} average response times in milliseconds, {by_connections(records)}"
    return StudyTable(
        name=name,
        head=(f"Table {name}: {title}", *conditions(records)),
        rows=rows,
        figures=figures,
        notes=[*marks.doubts, *missing(records, known=known)],
    )


def _mean_rows(sides: Mapping[int, ArmSummary], columns: Sequence[int], *, whole: bool) -> list[Row]:
    intervals = {count: found for count, side in sides.items() if (found := _interval(side)) is not None}
    covers = f" ({100 * min(each.confidence for each in intervals.values()):.1f} %)" if intervals else ""
    return [
        row("  mean", sides, columns, lambda side: milliseconds_text(side.mean)),
        *([] if whole else [row(f"{FORMULA} mean", sides, columns, _completed_mean)]),
        row(f"{FORMULA} interval{covers}", intervals, columns, _span_text),
    ]


def _completed_mean(side: ArmSummary) -> str:
    return milliseconds_text(statistics.fmean(side.completed_values)) if side.completed_values else NONE


def _span_text(interval: Interval) -> str:
    return f"{milliseconds_text(interval.low)} - {milliseconds_text(interval.high)}"


def _interval(side: ArmSummary) -> Interval | None:
    try:
        return study_mean_interval(side.completed_values)
    except InvalidError:  # of fewer than two runs with a completed connection
        return None


def _printed_means(protocol: str, arm: Arm, columns: Sequence[int], marks: DoubtMarks) -> list[Row]:
    found = {count: MEANS[protocol, arm, count] for count in columns if (protocol, arm, count) in MEANS}
    if not found:
        return []
    return [
        marks.row("mean", arm, columns, {count: f"{each.mean_ms:.1f}" for count, each in found.items()}),
        marks.row(
            "interval",
            arm,
            columns,
            {count: f"{each.low_ms:.1f} - {each.high_ms:.1f}" for count, each in found.items()},
        ),
    ]


def _mean_figures(table: str, records: Sequence[Record], arm: Arm, count: int, side: ArmSummary) -> dict[str, Any]:
    interval, printed = _interval(side), MEANS.get((records[0].protocol, arm, count))
    return {
        **place(table, records, arm, count),
        "runs": len(side.values),
        "mean_ms": 1000 * side.mean,
        **interval_ms("formula_mean_ms", interval),
        "study_mean_ms": printed.mean_ms if printed else None,
        "study_low_ms": printed.low_ms if printed else None,
        "study_high_ms": printed.high_ms if printed else None,
        **counts(side),
    }


def _sides(records: Sequence[Record]) -> dict[Arm, dict[int, ArmSummary]]:
    """Return the summaries of all arms by connections, the reference first."""
    sides = {records[0].reference.arm: {record.connections: record.reference for record in records}}
    for arm, found in by_arm(records).items():
        sides[arm] = {count: record.test for count, record in found.items()}
    return sides
