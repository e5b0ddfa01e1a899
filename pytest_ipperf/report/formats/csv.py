"""CSV (RFC 4180): a row for each cell, metric and arm, with its question and its answer, for those who go on computing.

All figures are in base units with all digits; what a cell does not have stays empty. A text that a spreadsheet would
take for a formula has an apostrophe before it, as OWASP has it ("CSV Injection"); numbers, also negative ones, have
none.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.record import ArmSummary, Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables import columns
from pytest_ipperf.report.tables.cell_results import CellResult, ResultKind, cell_results, unruled

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NIGHT = ("flagged", "p_fresh", "p_adjusted", "p_history", "p_history_adjusted", "nights")


@dataclass(frozen=True, kw_only=True)
class Csv(Report):
    """One table for all protocols: what only one kind of them has are columns of its own."""

    name: str = "csv"
    title: str = "CSV"
    suffix: str = ".csv"

    def render(self, summary: SessionSummary) -> bytes:
        rows = [{name: _safe(value) for name, value in row.items()} for row in _rows(summary)]
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0] if rows else _session(summary)))
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode("utf-8", "replace")


report = Csv()


def _rows(summary: SessionSummary) -> Iterator[dict[str, Any]]:
    """All with the same columns, in the same order."""
    results = (*cell_results(summary), *map(_unruled, unruled(summary)))
    found = [result.record for result in results if result.record]
    levels = list(dict.fromkeys(name for record in found for name in record.levels))
    means = sorted({name for record in found for side in (record.test, record.reference) for name in side.figures})
    empty = dict.fromkeys(name for record in found[:1] for name in _columns(record, record.test, levels, means))
    for result in results:
        first, last = {**_session(summary), **_which(result)}, _decision(result)
        if result.record is None:
            yield {**first, "role": None, **empty, **last}
            continue
        for role in ("test", "reference"):
            own = _columns(result.record, getattr(result.record, role), levels, means)
            # The answer is the arm's; the reference comes with every arm, whose epochs it shares.
            own |= dict.fromkeys(columns.answer(result.record)) if role == "reference" else {}
            yield {**first, "role": role, **own, **(last if role == "test" else dict.fromkeys(last))}


def _unruled(record: Record) -> CellResult:
    """A twin of the reference, by which the night itself is judged, has figures and no ruling."""
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
        **_question(record, levels),
        **_side(record, side),
        **columns.arm_columns(side),
        **{f"mean_{name}": side.figures.get(name) for name in means},
        "notes": " | ".join(side.notes),
        **columns.answer(record),
    }


def _question(record: Record, levels: Iterable[str]) -> dict[str, Any]:
    """`link_...` is what the links do, `level_...` the protocol's own factors."""
    return {
        "fingerprint": record.fingerprint, "testbed": record.testbed, "protocol": record.protocol,
        "client": record.client, "server": record.server, "resolver": record.resolver,
        "connections": record.connections, "payload_bytes": record.payload_bytes,
        **{f"level_{name}": record.levels.get(name) for name in levels},
        "rate_per_s": record.rate_per_s, "workers": record.workers, "deadline_s": record.deadline_s,
        "run_s": record.run_s, "warmup_s": record.warmup_s, "backend": record.backend,
        "link_rate_bit_s": record.rate_bit_s or None, "link_loss": record.loss, "link_delay_s": record.delay_s,
        "one_machine": record.one_machine, "design": record.design, "seed": record.seed, "look": record.look,
        "epochs": record.epochs, "blocks": record.blocks, "taken_from": record.taken_from,
    }  # fmt: skip


def _side(record: Record, side: ArmSummary) -> dict[str, Any]:
    return {
        "arm": str(side.arm),
        "unit": METRICS[record.metric].metric.unit,
        "runs": len(side.values),
        "mean": side.mean,
        "sd_of_runs": columns.spread(side),
        "mean_of_completed_s": statistics.fmean(side.completed_values) if side.completed_values else None,
        "attempted": side.attempted,
        "completed": side.completed,
        "failed": columns.failed_text(side),
    }


def _decision(result: CellResult) -> dict[str, Any]:
    """The night's decision; without one, or of a test without an answer, its verdict or trouble again."""
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
    """Of which measurement of the night the row is."""
    if result.cell is None or result.record is None:
        return ""
    return "fresh" if result.cell.fresh else "screen"


def _safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
