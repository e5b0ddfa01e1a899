"""Build the rows of `flows.csv`: all digits, base units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.flow.tables import latest
from pytest_ipperf.report.tables import columns

_WORKLOAD = ("testbed", "protocol", "metric", "unit", "connections", "payload_bytes")
_MEASUREMENT = ("design", "seed", "blocks", "taken_from", "link_rate_bit_s", "link_loss", "link_delay_s", "one_machine")
_RUNS = ("runs", "mean", "sd_of_runs", "attempted", "completed", "failed", "path_bit_s")


def figures(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return a row for each arm of each cell and metric, with the same columns; one for a workload's reference."""
    chosen = latest(records)
    levels, means = columns.names_of(chosen)
    rows, seen = list[dict[str, Any]](), set[tuple[Any, ...]]()
    # The reference is measured for as long as any other arm.
    for record in sorted(chosen, key=lambda each: -each.epochs):
        where = {
            **columns.of_record(record, _WORKLOAD),
            **columns.levels(record, levels),
            **columns.of_record(record, _MEASUREMENT),
        }
        sides = [
            {
                **columns.arm_columns(side.arm),
                **columns.of_record(record, ("backend", "epochs")),
                **columns.of_side(side, _RUNS),
                **columns.figures(side, means),
                **columns.of_side(side, ["notes"]),
            }
            for side in (record.reference, record.test)
        ]
        place = (*where.values(),)
        if place not in seen:
            seen.add(place)
            rows.append({**where, **sides[0], **dict.fromkeys(columns.answer(record))})
        rows.append({**where, **sides[1], **columns.answer(record)})
    return rows
