"""Build the rows of `response-times.csv`: all digits, times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.tables import columns

_CELL = (
    *("cell", "testbed", "protocol", "client", "server", "connections", "payload_bytes", "design", "seed", "epochs"),
    *("blocks", "deadline_s", "taken_from", "rate_per_s", "workers", "rate_bit_s", "loss", "delay_s", "backend"),
    "one_machine",
)
_SIDE = ("runs", "mean_s", "sd_of_runs_s", "mean_of_completed_s", "attempted", "completed", "failed")
_ANSWER = {
    **{name: f"{name}_percent" for name in ("change", "low", "high", "lower_bound", "upper_bound", "effective_margin")},
    "unit_of_change": "",
}
"""Names of the answer's columns in this file, in which all changes are in percent."""


def response_time_rows(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """Yield a row for each arm of each cell; that of the reference comes once, before the first cell of its workload.

    It is taken from the cell with the most epochs.
    """
    found = list(records)
    longest = {_place(record): record for record in sorted(found, key=lambda each: each.epochs)}
    for record in found:
        answer = {_ANSWER.get(name, name): value for name, value in columns.answer(record).items()}
        del answer[""]
        answer |= columns.beside(record)
        if reference := longest.pop(_place(record), None):
            cell = {"cell": f"{record.workload}-{record.reference.arm}"}
            yield {**_row(reference, reference.reference), **cell, **dict.fromkeys(answer)}
        yield {**_row(record, record.test), **answer}


def _row(record: Record, side: ArmSummary) -> dict[str, Any]:
    own = columns.of_side(side, (*_SIDE, *columns.ARM_COLUMNS))
    return {**columns.of_record(record, _CELL), **columns.arm_columns(side.arm), **own}


def _place(record: Record) -> tuple[str, ...]:
    """Return what records of one reference share."""
    return record.workload, str(record.reference.arm), record.server, record.design
