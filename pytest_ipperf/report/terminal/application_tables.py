"""Lay out the terminal tables of applications in the shape of paper 000 (Tables 3-1 and 3-2), with their notes.

There is one table for each testbed, protocol, client, payload and server, with a column for each number of connections
and a group of rows for each arm. Under design `paper` they are the study's own tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import Arm, client_text
from pytest_ipperf.core.portable.units import bytes_text, milliseconds_text, seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import application
from pytest_ipperf.report.flow.dimensions import held_levels
from pytest_ipperf.report.studies.response_time import study_notes, study_tables
from pytest_ipperf.report.tables import layout
from pytest_ipperf.report.tables.arm_rows import arm_rank, client_notes, quantile_notes, reused_lines, rows_of_arm
from pytest_ipperf.report.tables.cautions import outage_notes
from pytest_ipperf.report.tables.component_rows import component_notes
from pytest_ipperf.report.tables.intervals import levels_text
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.network_notes import (
    client_lines,
    link_rate_notes,
    machine_notes,
    missed_notes,
    run_notes,
    testbed_text,
)
from pytest_ipperf.report.tables.verdict_rows import (
    answer_rows,
    counted_text,
    is_uneven,
    means_disagree,
    typical_notes,
    verdict_notes,
)


def tables(records: Sequence[Record], width: int | None = None, *, detail: bool = True) -> list[str]:
    """Return all tables with their notes, as lines of at most `width` characters; empty without records.

    Without `detail`, rows that report nothing unusual are left out, and of the notes only those on limits of the
    figures remain.
    """
    if records and records[0].design == "paper":
        return [line for study in study_tables(records) for line in study.lines(width)] + [*study_notes(records), ""]
    made = grouped(records)
    lines = [line for group in made for line in (*table(group, detail=detail).lines(width), "")]
    below = notes if detail else cautions
    found = dict.fromkeys(tuple(below(group)) for group in made)
    return lines + [line for note in found if note for line in (*note, "")]


def grouped(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records of applications grouped by table, in the order of the tables."""
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        workload = (record.testbed, record.protocol, record.client, record.payload_bytes)
        load = (record.rate_per_s, record.workers)
        held = (record.levels_text, record.own_reference)
        groups[*workload, *load, *held, record.server, record.design].append(record)
    return [groups[key] for key in sorted(groups)]


def table(records: Sequence[Record], *, detail: bool = True) -> Table:
    """Return the table of a group of records; `detail` as in `tables`."""
    first = records[0]
    columns = sorted({record.connections for record in records})
    # The reference is measured for as long as any other arm.
    longest = {record.connections: record for record in sorted(records, key=lambda record: record.epochs)}
    arms = sorted({record.test.arm for record in records}, key=arm_rank)
    uneven, typical = is_uneven(records), any(map(means_disagree, records))
    rows: list[Row] = [("", [f"{count}" for count in columns])]
    rows += _reference_rows(first.reference.arm, longest, columns, uneven=uneven, detail=detail)
    answers: dict[str, dict[int, Record]] = {}
    for arm in arms:
        found = {record.connections: record for record in records if record.test.arm == arm}
        rows += _arm_rows(arm, found, columns, uneven=uneven, typical=typical, detail=detail)
        answers[arm.title] = {columns.index(count): record for count, record in found.items()}
    protocol, metric = application(first.protocol), METRICS[first.metric].metric
    client = client_text(first.client, first.rate_per_s, first.workers)
    at_once = "" if first.rate_per_s else " at once"
    return Table(
        title=f"{protocol.title} {metric.title} in milliseconds, by connections{at_once}",
        about=(
            (
                f"{testbed_text(records)}, server {first.server}, client {client}, "
                f"payload {bytes_text(first.payload_bytes)}, timed to {protocol.ends_with!r}"
            ),
            *([levels] if (levels := held_levels(first)) else []),
            *client_lines(records),
            *reused_lines(records),
        ),
        rows=tuple(rows),
        answers=answers,
    )


def _reference_rows(
    arm: Arm, found: dict[int, Record], columns: Sequence[int], *, uneven: bool, detail: bool
) -> list[Row]:
    sides = {count: found[count].reference for count in columns}
    rows = [(arm.title, [milliseconds_text(sides[count].mean) for count in columns])]
    if uneven:
        rows.append(("  epochs", [str(found[count].epochs) for count in columns]))
    return rows + rows_of_arm(sides, columns, detail=detail)


def _arm_rows(
    arm: Arm, found: dict[int, Record], columns: Sequence[int], *, uneven: bool, typical: bool, detail: bool
) -> list[Row]:
    return [
        layout.row(arm.title, found, columns, lambda record: milliseconds_text(record.test.mean)),
        *answer_rows(found, columns, "%", milliseconds_text, uneven=uneven, typical=typical, detail=detail),
        *rows_of_arm({count: record.test for count, record in found.items()}, columns, detail=detail),
    ]


def notes(records: Sequence[Record]) -> list[str]:
    """Return the notes that explain the figures of a table, in lines."""
    record, uneven = records[0], is_uneven(records)
    protocols = [application(each.protocol) for each in records]
    look_up = ", DNS included" if any(each.resolves or not each.datagram for each in protocols) else ""
    timed = [
        f"Timed from the first socket{look_up}; a failed connection counts as {seconds_text(record.deadline_s)}.",
        "dns / connect / first byte: medians over completed connections, each since the connection's start.",
        *quantile_notes(records),
        *client_notes(records),
        *link_rate_notes(records),
        *run_notes(records),
    ]
    epochs = "as in the row" if uneven else f"{record.epochs}"
    return [
        f"First rows: mean of {counted_text(record, uneven=uneven)}.",
        *_change_lines(records, epochs),
        *typical_notes(records),
        *verdict_notes(record),
        *component_notes(records),
        *outage_notes(records),
        *timed,
    ]


def cautions(records: Sequence[Record]) -> list[str]:
    """Return only the notes that limit what the figures of a table say, in lines."""
    return [*machine_notes(records), *missed_notes(records), *run_notes(records)]


def _change_lines(records: Sequence[Record], epochs: str) -> list[str]:
    record = records[0]
    blocks = f"Change: median log ratio of an epoch's blocks ({record.blocks}), mean over the epochs ({epochs})"
    if not record.judges:
        return [f"{blocks}."]
    return [
        f"{blocks},",
        f"with a two-sided {levels_text(records)} t interval, by which it is judged;",
        "it can differ from the ratio of the means.",
    ]
