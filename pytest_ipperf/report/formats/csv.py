"""CSV: a row for each cell, metric and arm, with its question and its answer, for further computation.

All figures are in base units with all digits; missing values are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables import columns
from pytest_ipperf.report.tables.cell_results import CellResult, ResultKind, cell_results, unruled
from pytest_ipperf.report.tables.csv_text import csv_text

_WORKLOAD = ("fingerprint", "testbed", "protocol", "client", "server", "resolver", "connections", "payload_bytes")
_MEASUREMENT = (
    *("rate_per_s", "workers", "deadline_s", "run_s", "warmup_s", "backend", "link_rate_bit_s", "link_loss"),
    *("link_delay_s", "one_machine", "design", "seed", "look", "epochs", "blocks", "taken_from"),
)
_RUNS = ("runs", "mean", "sd_of_runs", "mean_of_completed_s", "attempted", "completed", "failed")
_NIGHT = ("flagged", "p_fresh", "p_adjusted", "p_history", "p_history_adjusted", "nights")


@dataclass(frozen=True, kw_only=True)
class Csv(Report):
    """One table for all protocols, with columns of their own for properties of one kind."""

    name: str = "csv"
    title: str = "CSV"
    suffix: str = ".csv"

    def render(self, summary: SessionSummary) -> bytes:
        return csv_text(list(_rows(summary)), head=_session(summary)).encode("utf-8", "replace")


report = Csv()


def _rows(summary: SessionSummary) -> Iterator[dict[str, Any]]:
    """Yield all rows with the same columns, in the same order."""
    results = (*cell_results(summary), *map(_unruled, unruled(summary)))
    found = [result.record for result in results if result.record]
    levels, means = columns.names_of(found)
    empty = dict.fromkeys(name for record in found[:1] for name in _columns(record, record.test, levels, means))
    for result in results:
        first, last = {**_session(summary), **_which(result)}, _decision(result)
        if result.record is None:
            yield {**first, "role": None, **empty, **last}
            continue
        for role in ("test", "reference") if result.record.compared else ("test",):
            own = _columns(result.record, getattr(result.record, role), levels, means)
            # The answer belongs to the arm; the reference has a row for every arm, whose epochs it shares.
            answer = (*columns.answer(result.record), *columns.beside(result.record))
            own |= dict.fromkeys(answer) if role == "reference" else {}
            yield {**first, "role": role, **own, **(last if role == "test" else dict.fromkeys(last))}


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
        **columns.of_side(side, ["arm"]),
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
