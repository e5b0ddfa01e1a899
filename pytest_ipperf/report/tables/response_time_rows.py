"""Build the rows of `response-times.csv`: all digits, times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.tables import columns

_CELL = (
    *("cell", "testbed", "protocol", "client", "server", "connections", "payload_bytes", "design", "seed", "epochs"),
    *("blocks", "deadline_s", "taken_from", "rate_per_s", "workers", "rate_bit_s", "loss", "delay_s", "backend"),
    "one_machine",
)
_SIDE = ("arm", "runs", "mean_s", "sd_of_runs_s", "mean_of_completed_s", "attempted", "completed", "failed")
_ANSWER = {
    **{name: f"{name}_percent" for name in ("change", "low", "high", "lower_bound", "upper_bound")},
    "unit_of_change": "",
}
"""Names of the answer's columns in this file, in which all changes are in percent."""


def response_time_rows(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """Yield a row for each arm of each cell, and one for the reference, which shares the arm's epochs."""
    for record in records:
        cell = columns.of_record(record, _CELL)
        answer = {_ANSWER.get(name, name): value for name, value in columns.answer(record).items()}
        del answer[""]
        answer |= columns.beside(record)
        for side, own in ((record.test, answer), (record.reference, dict.fromkeys(answer))):
            yield {**cell, **columns.of_side(side, (*_SIDE, *columns.ARM_COLUMNS)), **own}
