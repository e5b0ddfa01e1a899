"""OpenMetrics: gauges for the textfile collector of node_exporter, a Pushgateway, or any reader of the text format.

The file is valid in the classic text format of Prometheus and in OpenMetrics 1.0. It has no time stamps, as the
textfile collector rejects them; `ipperf_session_began_seconds` says how old the values are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.data import series as names
from pytest_ipperf.report.data.series import Sample
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables.cell_results import VERDICTS, cell_results, worst_answers


@dataclass(frozen=True, kw_only=True)
class OpenMetrics(Report):
    """A gauge for each quantity; arms and cells are labels. In a night, verdicts are the gate decisions."""

    name: str = "openmetrics"
    title: str = "OpenMetrics"
    suffix: str = ".prom"

    def render(self, summary: SessionSummary) -> bytes:
        return "".join(f"{line}\n" for line in (*_lines(summary), "# EOF")).encode("utf-8", "replace")


report = OpenMetrics()


def _lines(summary: SessionSummary) -> Iterator[str]:
    """Yield the families, each with all its samples in one place, as both formats demand."""
    families: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for sample in _samples(summary):
        # The reference belongs to every arm of its blocks: the last counts.
        families.setdefault(sample.name, {})[tuple(sample.labels.items())] = sample.value
    helps = {names.mean_name(record.metric): names.mean_help(record.metric) for record in summary.records} | names.HELP
    for name, found in families.items():
        yield f"# HELP {name} {_escaped(helps[name])}"
        yield f"# TYPE {name} gauge"
        yield from (f"{name}{_labels(labels)} {_number(value)}" for labels, value in found.items())


def _samples(summary: SessionSummary) -> Iterator[Sample]:
    about = {"saved": summary.saved}
    yield Sample(names.BEGAN, about, summary.began_at)
    if summary.seconds is not None:
        yield Sample(names.DURATION, about, summary.seconds)
    yield Sample(names.WHOLE, about, summary.completeness.is_whole)
    for record, code in worst_answers(cell_results(summary)):
        yield from _of_cell(record, code)


def _of_cell(record: Record, code: str) -> Iterator[Sample]:
    for side in record.sides:
        yield from names.arm_samples(record, side)
    yield from names.answer_samples(record)
    labels = {**names.labels_of(record), **names.arm_labels(record.test), "metric": record.metric}
    for verdict in dict.fromkeys((*VERDICTS, code)):
        yield Sample(names.VERDICT, {**labels, "verdict": verdict}, verdict == code)


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    found = ",".join(f'{name}="{_escaped(value, quote=True)}"' for name, value in labels if value)
    return f"{{{found}}}" if found else ""


def _escaped(text: str, *, quote: bool = False) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n")
    return plain.replace('"', '\\"') if quote else plain


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(float(value))
