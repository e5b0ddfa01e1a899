"""Influx line protocol: points of arms and answers at the session's start, and of every run at its own time.

InfluxDB, Telegraf, VictoriaMetrics and QuestDB read it. Time stamps are nanoseconds since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.data import series as names
from pytest_ipperf.report.data.tidy_rows import run_rows
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables.cell_results import cell_results, worst_answers
from pytest_ipperf.report.tables.columns import of_side

_QUANTILES = ("p50_s", "p95_s", "p99_s", "p999_s")
_TAGS_OF_RUN = ("testbed", "protocol", "connections", "payload_bytes")


@dataclass(frozen=True, kw_only=True)
class Influx(Report):
    """Measurements `ipperf_arm`, `ipperf_answer` and `ipperf_run`."""

    name: str = "influx"
    title: str = "Influx line protocol"
    suffix: str = ".lp"

    def render(self, summary: SessionSummary) -> bytes:
        lines = dict.fromkeys((*_of_cells(summary), *_of_runs(summary)))
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


report = Influx()


def _of_cells(summary: SessionSummary) -> Iterator[str]:
    at = _nanoseconds(summary.began_at)
    for record, code in worst_answers(cell_results(summary)):
        for side in record.sides:
            tags = {**names.labels_of(record), **names.arm_labels(side), "metric": record.metric}
            counts = {"attempted": side.attempted, "failed": side.attempted - side.completed}
            figures = {"mean": side.mean, **of_side(side, _QUANTILES), **counts}
            yield from _line("ipperf_arm", tags, figures, at)
        tags = {**names.labels_of(record), **names.arm_labels(record.test), "metric": record.metric}
        yield from _line("ipperf_answer", tags, _answer(record, code), at)


def _answer(record: Record, code: str) -> dict[str, float | str | None]:
    ratios = {sample.name.removeprefix("ipperf_"): sample.value for sample in names.answer_samples(record)}
    return {**ratios, "verdict": code, "epochs": record.epochs}


def _of_runs(summary: SessionSummary) -> Iterator[str]:
    for row in run_rows(summary):
        if row["began_at"] is None or row["value"] is None:
            continue
        levels = {name: row[name] for name in row if name.startswith("level_")}
        tags = {name: row[name] for name in (*_TAGS_OF_RUN, "arm", "ipver", "transport", "metric")} | levels
        fields = {"value": row["value"], "epoch": row["epoch"], "block": row["block"], "failed": row["failed"]}
        yield from _line("ipperf_run", tags, fields, _nanoseconds(row["began_at"]))


def _line(
    measurement: str, tags: Mapping[str, object], fields: Mapping[str, int | float | str | None], at: int
) -> Iterator[str]:
    """Yield a line; tags and fields without a value, and infinite ones, which the protocol lacks, are left out."""
    found = ",".join(f"{name}={_field(value)}" for name, value in fields.items() if _is_known(value))
    own = "".join(f",{name}={_tag(str(value))}" for name, value in sorted(tags.items()) if value not in ("", None))
    if found:
        yield f"{measurement}{own} {found} {at}"


def _is_known(value: float | str | None) -> bool:
    return isinstance(value, str) or (value is not None and math.isfinite(value))


def _tag(text: str) -> str:
    for special in ("\\", ",", "=", " "):
        text = text.replace(special, f"\\{special}")
    return text.replace("\n", "\\n")


def _field(value: object) -> str:
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    return f"{value}i" if isinstance(value, int) else repr(value)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
