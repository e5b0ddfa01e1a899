"""Lay out the tables of flows: one for each testbed, protocol, metric, design and sweep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import RFC8219
from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.percentile import repetition_summary
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.dimensions import order
from pytest_ipperf.report.flow.engine_rows import engine_rows
from pytest_ipperf.report.flow.limited_by import limit_text
from pytest_ipperf.report.flow.notes import cautions, notes
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.flow.sweeps import Sweep, covering_sweeps
from pytest_ipperf.report.tables import layout
from pytest_ipperf.report.tables.arm_rows import arm_rank
from pytest_ipperf.report.tables.cell_results import worst_first
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.network_notes import testbed_text
from pytest_ipperf.report.tables.verdict_rows import answer_rows, is_uneven, means_disagree

Group = tuple[str, int, str, int, str, str]


def tables(records: Sequence[Record], width: int | None = None, *, detail: bool = True) -> list[str]:
    """Return all tables of flows with their notes, as lines of at most `width` characters; empty without records.

    Without `detail`, rows that report nothing unusual are left out, and of the notes only those on limits of the
    figures remain.
    """
    made = [line for each in tables_of(records, detail=detail) for line in (*each.lines(width), "")]
    return made + (notes if detail else cautions)(in_order(records))


def tables_of(records: Sequence[Record], *, detail: bool = True) -> list[Table]:
    """Return all tables of flows; `detail` as in `tables`."""
    groups: dict[Group, list[Record]] = defaultdict(list)
    for record in in_order(records):
        groups[_group(record)].append(record)
    made: list[Table] = []
    shown: set[str] = set()
    for key in sorted(groups):
        for sweep in covering_sweeps(groups[key]):
            cells = {record.cell for record in sweep.records}
            made.append(_table(sweep, shown_above=cells <= shown, detail=detail))
            shown |= cells
    return made


def in_order(records: Iterable[Record]) -> list[Record]:
    """Return the latest record of each cell, in the order of the tables."""
    return placed(latest(records))


def placed(records: Iterable[Record]) -> list[Record]:
    """Return all records in the order of the tables; those of one cell keep their order."""
    return sorted(records, key=_place)


def latest(records: Iterable[Record]) -> list[Record]:
    """Return a record for each cell, metric and design; of several tests of a cell the worst answer, not the last."""
    judged = answered(records)
    worst = {_cell(record): record for record in reversed(worst_first(reversed(judged)))}
    return [worst[cell] for cell in dict.fromkeys(map(_cell, judged))]


def answered(records: Iterable[Record]) -> list[Record]:
    """Return each test's last record of a cell, for which several tests may have different margins."""
    return list({(*_cell(record), record.nodeid): record for record in records}.values())


def references(records: Iterable[Record], sweep: Sweep) -> dict[int, Record]:
    """Return by column the record with the longest measurement of the reference."""
    return {sweep.column(record): record for record in sorted(records, key=lambda record: record.epochs)}


def _place(record: Record) -> tuple[Any, ...]:
    return _group(record), order(record), arm_rank(record.test.arm), record.client, record.server


def _cell(record: Record) -> tuple[str, ...]:
    return *record.key, record.server, record.design


def _group(record: Record) -> Group:
    metrics = PROTOCOLS[record.protocol].metrics
    at = metrics.index(record.metric) if record.metric in metrics else len(metrics)
    of = list(PROTOCOLS).index(record.protocol)
    return record.testbed, of, record.protocol, at, record.design, record.own_reference


def _table(sweep: Sweep, *, shown_above: bool, detail: bool) -> Table:
    """Return a table; with `shown_above` a table above has the engines' rows of these runs."""
    first, metric = sweep.records[0], METRICS[sweep.records[0].metric].metric
    sides = [side for record in sweep.records for side in (record.test, record.reference)]
    unit = unit_of(metric, [side.mean for side in sides])
    scale = f" in {unit.name}" if unit.name else ""
    answers: dict[str, dict[int, Record]] = defaultdict(dict)
    for record in sweep.records:
        answers[record.test.arm.title][sweep.column(record)] = record
    return Table(
        title=f"{PROTOCOLS[first.protocol].title}: {metric.title}{scale}, by {sweep.dimension.title}",
        about=(
            f"{testbed_text(sweep.records)}{_server_text(sweep.records)}",
            *([sweep.held] if sweep.held else []),
            *_reused(sweep),
            *(["the engines' figures of the same runs are in a table above"] if shown_above else []),
        ),
        rows=tuple(_rows(sweep, unit, shown_above=shown_above, detail=detail)),
        answers=answers,
    )


def _server_text(records: Sequence[Record]) -> str:
    """Return the servers of transfers; empty for flows between agents."""
    servers = dict.fromkeys(
        record.server for record in records if PROTOCOLS[record.protocol].kind.server(record.server)
    )
    return f", server {', '.join(servers)}" if servers else ""


def _rows(sweep: Sweep, unit: Unit, *, shown_above: bool, detail: bool) -> list[Row]:
    columns, uneven = range(len(sweep.values)), is_uneven(sweep.records)
    typical = any(map(means_disagree, sweep.records))
    first, longest = sweep.records[0], references(sweep.records, sweep)
    reference = {at: record.reference for at, record in longest.items()}
    rows: list[Row] = [("", sweep.texts), *_value_rows(first.reference.arm, reference, columns, unit, first.design)]
    if uneven:
        rows.append(layout.row("  epochs", longest, columns, lambda record: str(record.epochs)))
    rows += [] if shown_above else engine_rows(first.protocol, first.metric, reference, columns, detail=detail)
    for arm in sorted({record.test.arm for record in sweep.records}, key=arm_rank):
        found = {sweep.column(record): record for record in sweep.records if record.test.arm == arm}
        tested = {at: record.test for at, record in found.items()}
        rows += _value_rows(arm, tested, columns, unit, first.design)
        rows += _answers(found, columns, unit, uneven=uneven, typical=typical, detail=detail)
        rows += [] if shown_above else engine_rows(first.protocol, first.metric, tested, columns, detail=detail)
    return rows


def _answers(
    found: dict[int, Record], columns: Sequence[int], unit: Unit, *, uneven: bool, typical: bool, detail: bool
) -> list[Row]:
    """Return the rows of the answers; under a design of one epoch, which has none, the change of the means."""
    first = next(iter(found.values()))
    if all(record.epochs == 1 for record in found.values()):
        return [layout.row("  change of the means", found, columns, change_of_means)]
    return answer_rows(found, columns, first.change_unit, unit.text, uneven=uneven, typical=typical, detail=detail)


def change_of_means(record: Record) -> str:
    """Return the change of the means, for a design of one epoch without intervals; empty for a reference of zero.

    Without a comparison it is empty too.
    """
    if not record.compared:
        return ""
    test, reference = record.test.mean, record.reference.mean
    if METRICS[record.metric].metric.scale == "ratio":
        return f"{percent_text(100 * (test / reference - 1))} {record.change_unit}" if reference else ""
    return f"{percent_text(100 * (test - reference))} {record.change_unit}"


def _value_rows(arm: Arm, sides: dict[int, ArmSummary], columns: Sequence[int], unit: Unit, design: str) -> list[Row]:
    """Return the row of the mean of an arm's runs; under design `rfc8219` also its median and percentiles."""
    mean = layout.row(arm.title, sides, columns, lambda side: f"{unit.text(side.mean)}{limit_text(side)}")
    if design != RFC8219:
        return [mean]

    def of_repetitions(side: ArmSummary) -> str:
        found = repetition_summary(side.values)
        return f"{unit.text(found.median)} [{unit.text(found.low)}, {unit.text(found.high)}]"

    return [mean, layout.row("  median [1st, 99th percentile]", sides, columns, of_repetitions)]


def _reused(sweep: Sweep) -> list[str]:
    """Return lines that name the columns measured by an earlier session."""
    found: dict[str, set[int]] = defaultdict(set)
    for record in sweep.records:
        if record.taken_from:
            found[record.taken_from].add(sweep.column(record))
    name, texts = sweep.dimension.title, sweep.texts
    return [
        f"reused from session {session}: {name} {', '.join(texts[at] for at in sorted(columns))}"
        for session, columns in sorted(found.items())
    ]
