"""Write the files of a session's tables. All is in base units, times in seconds."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_ipperf.core.records.record import ArmSummary, Record
from pytest_ipperf.protocols import flow
from pytest_ipperf.report.flow import figures as flow_figures
from pytest_ipperf.report.studies import router
from pytest_ipperf.report.studies.response_time import study_notes, study_tables
from pytest_ipperf.report.tables import columns

_CELLS, _FLOWS = "response-times.csv", "flows.csv"


def write_tables(records: Sequence[Record], folder: Path, made_at: datetime) -> None:
    """Writes `response-times.csv` and `flows.csv` into `folder`, and the studies' tables, as text and as figures.

    Each only where there are such records; the tables of paper 000 under design `paper`, those of paper 001 under any,
    with the time `made_at`, which knows its zone. Raises OSError where that cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flows = [record for record in records if flow(record.protocol)]
    others = [record for record in records if not flow(record.protocol)]
    if others:
        _write(folder / _CELLS, list(_cells(others)))
        if others[0].design == "paper":
            _write_study(others, folder)
    if flows:
        _write(folder / _FLOWS, flow_figures(flows))
        router.write(flows, folder, made_at)


def _write_study(records: Sequence[Record], folder: Path) -> None:
    texts: dict[str, list[str]] = {}
    figures: dict[str, list[Mapping[str, Any]]] = {}
    for table in study_tables(records):  # one of several servers or payloads goes below the other
        texts.setdefault(table.name, []).extend(table.lines())
        figures.setdefault(table.name, []).extend(table.figures)
    for name, lines in texts.items():
        text = "\n".join([*lines, *study_notes(records)]) + "\n"
        (folder / f"table-{name}.txt").write_text(text, encoding="utf-8")
        _write(folder / f"table-{name}.csv", figures[name])


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _cells(records: Iterable[Record]) -> Iterable[dict[str, Any]]:
    """A row for each arm of each cell; the reference comes with every arm, whose epochs it shares."""
    for record in records:
        yield {**_question(record), **_side(record.test), **_answer(record)}
        yield {**_question(record), **_side(record.reference), **dict.fromkeys(_answer(record))}


def _question(record: Record) -> dict[str, Any]:
    return {
        "cell": record.cell, "testbed": record.testbed, "protocol": record.protocol, "client": record.client,
        "server": record.server, "connections": record.connections, "payload_bytes": record.payload_bytes,
        "design": record.design, "seed": record.seed, "epochs": record.epochs, "blocks": record.blocks,
        "deadline_s": record.deadline_s, "taken_from": record.taken_from,
        "rate_per_s": record.rate_per_s, "workers": record.workers,
        "rate_bit_s": record.rate_bit_s or None, "loss": record.loss, "delay_s": record.delay_s,
        "backend": record.backend, "one_machine": record.one_machine,
    }  # fmt: skip


def _side(side: ArmSummary) -> dict[str, Any]:
    return {
        "arm": str(side.arm),
        "runs": len(side.values),
        "mean_s": side.mean,
        "sd_of_runs_s": columns.spread(side),
        "mean_of_completed_s": statistics.fmean(side.completed_values) if side.completed_values else None,
        "attempted": side.attempted,
        "completed": side.completed,
        "failed": columns.failed_text(side),
        **columns.arm_columns(side),
    }


def _answer(record: Record) -> dict[str, Any]:
    return {
        "change_percent": record.estimate,
        "low_percent": record.low,
        "high_percent": record.high,
        "confidence": record.confidence if record.judges else None,
        "margin_fraction": record.margin_fraction,
        "verdict": record.verdict,
    }
