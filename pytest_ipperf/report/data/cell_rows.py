"""Build tidy rows of cells: each with its question and its answer, and one of the reference of each workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.data.tidy_rows import SCHEMA
from pytest_ipperf.report.tables import columns
from pytest_ipperf.report.tables.cell_results import CellResult, ResultKind, cell_results, unruled

_WORKLOAD = ("fingerprint", "testbed", "protocol", "client", "server", "resolver", "connections", "payload_bytes")
_MEASUREMENT = (
    *("rate_per_s", "workers", "deadline_s", "run_s", "warmup_s", "backend", "link_rate_bit_s", "link_loss"),
    *("link_delay_s", "one_machine", "design", "seed", "look", "epochs", "blocks", "taken_from"),
)
_RUNS = ("runs", "mean", "sd_of_runs", "mean_of_completed_s", "attempted", "completed", "failed")
_NIGHT = ("flagged", "p_fresh", "p_adjusted", "p_history", "p_history_adjusted", "nights")


def cell_rows(summary: SessionSummary) -> Iterator[dict[str, Any]]:
    """Yield all rows with the same columns, in the same order.

    A cell's row, with its answer, has the role `test`; a row of role `reference` precedes the first cell of a workload
    and metric, from the cell with the most epochs. A cell or test without a measurement has a row without a role.
    """
    results = (*cell_results(summary), *map(_unruled, unruled(summary)))
    found = [result.record for result in results if result.record]
    levels, means = columns.names_of(found)
    means = [name for name in means if any(name in _others(record) for record in found)]
    empty = dict.fromkeys(name for record in found[:1] for name in _columns(record, record.test, levels, means))
    longest = {_place(record): record for record in sorted(found, key=lambda each: each.epochs) if record.compared}
    for result in results:
        first, last = {**_session(summary), **_which(result)}, _decision(result)
        if result.record is None:
            yield {**first, "role": None, **empty, **last}
            continue
        if result.record.compared and (record := longest.pop(_place(result.record), None)):
            yield _reference_row(summary, record, levels, means)
        yield {**first, "role": "test", **_columns(result.record, result.record.test, levels, means), **last}


def cell_head(summary: SessionSummary) -> list[str]:
    """Return the names of the columns of a session without any row."""
    return list(_session(summary))


def _reference_row(
    summary: SessionSummary, record: Record, levels: Iterable[str], means: Iterable[str]
) -> dict[str, Any]:
    """Return the row of a workload's reference, which has no answer and no cell."""
    which = {"cell": f"{record.workload}-{record.reference.arm}", "metric": record.metric}
    result = _unruled(record)
    own = _columns(record, record.reference, levels, means)
    answer = dict.fromkeys((*columns.answer(record), *columns.beside(record)))
    nothing = {"workload_version": record.workload_version, "nodeid": None}
    return {**_session(summary), **which, **nothing, "role": "reference", **own, **answer,
            **dict.fromkeys(_decision(result))}  # fmt: skip


def _place(record: Record) -> tuple[str, ...]:
    """Return what records of one reference share: the workload, metric and arm, and who measured it."""
    return record.workload, record.metric, str(record.reference.arm), record.server, record.design


def _others(record: Record) -> set[str]:
    """Return the names of a record's figures without its own metric, whose mean has a column of its own."""
    return {name for side in record.sides for name in side.figures} - {record.metric}


def _unruled(record: Record) -> CellResult:
    """Return the result of a record that a night does not rule on: a twin of the reference."""
    return CellResult(
        kind=ResultKind.GREEN,
        code="",
        word="",
        sentence=record.sentence,
        nodeid=record.nodeid,
        key=record.key,
        record=record,
    )


def _session(summary: SessionSummary) -> dict[str, Any]:
    began = datetime.fromtimestamp(summary.began_at, UTC).isoformat(timespec="seconds")
    return {
        "schema": SCHEMA,
        "session": summary.name,
        "state": summary.completeness.state.value,
        "saved": summary.saved,
        "began_at": began,
    }


def _which(result: CellResult) -> dict[str, Any]:
    key = result.key
    return {
        "cell": key.cell if key else None,
        "metric": key.metric if key else None,
        "workload_version": key.version if key else None,
        "nodeid": result.nodeid,
    }


def _columns(record: Record, side: ArmSummary, levels: Iterable[str], means: Iterable[str]) -> dict[str, Any]:
    return {
        **columns.of_record(record, _WORKLOAD),
        **columns.levels(record, levels),
        **columns.of_record(record, _MEASUREMENT),
        **columns.arm_columns(side.arm),
        **columns.of_record(record, ["unit"]),
        **columns.of_side(side, (*_RUNS, *columns.ARM_COLUMNS)),
        **columns.figures(side, means),
        **columns.of_side(side, ["notes"]),
        **columns.answer(record),
        **columns.beside(record),
    }


def _decision(result: CellResult) -> dict[str, Any]:
    """Return the columns of the night's decision; without one, those of the verdict or trouble."""
    cell, record = result.cell, result.record
    night: Mapping[str, Any] = {name: getattr(cell, name) if cell else None for name in _NIGHT}
    return {
        "margin": record.margin if record else None,
        "alpha": record.alpha if record else None,
        "p_exceeds": record.p_exceeds if record else None,
        "ruling": result.code,
        "data": _data(result),
        **night,
        "sentence": result.sentence,
    }


def _data(result: CellResult) -> str:
    """Return the measurement of the night that the row is about; empty without a night."""
    if result.cell is None or result.record is None:
        return ""
    return "fresh" if result.cell.fresh else "screen"
