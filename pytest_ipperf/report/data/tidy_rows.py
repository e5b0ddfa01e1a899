"""Build tidy rows of cells, runs and samples: a variable is a column, an observation is a row, in base units.

`pytest_ipperf.load` and the formats `csv`, `runs`, `samples` and `parquet` share these rows (docs/data.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_ipperf.core.design.cell import testbed_of
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.measured_run import MeasuredRun
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.tables import columns

SCHEMA = 2
"""Version of the columns of all tidy files; it changes if a column is removed or changes its meaning."""
_OF_WORKLOAD = ("connections", "payload_bytes")
_RUN = ("epoch", "block", "slot", "began_at")
_HEAD = ("session", "workload", "testbed", "protocol", *_OF_WORKLOAD)


def run_rows(summary: SessionSummary) -> Iterator[dict[str, Any]]:
    """Yield a row for each run that counts and each of its metrics: `metric`, `unit` and `value`, None without one."""
    workloads, levels = _workloads(summary.records)
    for run in summary.runs:
        first = _of_run(run, workloads, levels)
        failed = sum(run.failed.values())
        counts = {"attempted": run.attempted, "completed": run.attempted - failed, "failed": failed}
        for name, value in run.values.items():
            unit = METRICS[name].metric.unit if name in METRICS else None
            yield {**first, **counts, "metric": name, "unit": unit, "value": value}


def run_columns(summary: SessionSummary) -> list[str]:
    """Return the names of the columns of runs, in order."""
    return [*_first(summary), "attempted", "completed", "failed", "metric", "unit", "value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBlock:
    """The samples of a run: `first` has the columns of the run, `columns` the `count` values of each sampled one.

    A column that only other runs have is None.
    """

    first: Mapping[str, Any]
    count: int
    columns: Mapping[str, Sequence[float] | None]

    def lines(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the number and the values of each sample."""
        values = (itertools.repeat(None, self.count) if each is None else each for each in self.columns.values())
        return zip(range(self.count), *values, strict=True)


def sample_blocks(summary: SessionSummary) -> Iterator[SampleBlock]:
    """Yield the samples of each run that counts and has any, one run at a time in memory.

    Raise DamageError if samples are not those that were written.
    """
    workloads, levels = _workloads(summary.records)
    names = list(_sampled(summary.runs))
    for run in summary.runs:
        width = len(run.columns)
        values = run.samples() if width else ()
        if values:
            own = {name: values[at::width] for at, name in enumerate(run.columns)}
            yield SampleBlock(
                first=_of_run(run, workloads, levels),
                count=len(values) // width,
                columns={name: own.get(name) for name in names},
            )


def sample_rows(summary: SessionSummary) -> Iterator[dict[str, Any]]:
    """Yield a row for each sample of each run that counts, with the columns that any of the runs has.

    `sample` counts the samples of a run from 0. Connections that failed have no sample. Raise DamageError if samples
    are not those that were written.
    """
    for block in sample_blocks(summary):
        names = ("sample", *block.columns)
        for line in block.lines():
            yield {**block.first, **dict(zip(names, line, strict=True))}


def sampled_runs(summary: SessionSummary) -> list[dict[str, Any]]:
    """Return the columns of all runs that may have samples."""
    workloads, levels = _workloads(summary.records)
    return [_of_run(run, workloads, levels) for run in summary.runs if run.columns]


def sample_columns(summary: SessionSummary) -> list[str]:
    """Return the names of the columns of samples, in order."""
    return [*_first(summary), "sample", *_sampled(summary.runs)]


def _sampled(runs: Iterable[MeasuredRun]) -> dict[str, None]:
    return dict.fromkeys(name for run in runs for name in run.columns)


def _first(summary: SessionSummary) -> list[str]:
    _, levels = _workloads(summary.records)
    return [*_HEAD, *(f"level_{name}" for name in levels), *columns.ARM, "confirms", *_RUN]


def _workloads(records: Iterable[Record]) -> tuple[dict[str, Record], list[str]]:
    """Return a record of each workload, and the names of all levels; a broken-off workload has no record."""
    found = list(records)
    return {record.workload: record for record in found}, columns.names_of(found)[0]


def _of_run(run: MeasuredRun, workloads: Mapping[str, Record], levels: Iterable[str]) -> dict[str, Any]:
    record = workloads.get(run.workload)
    return {
        "session": run.session,
        "workload": run.workload,
        "testbed": testbed_of(run.workload),
        "protocol": run.workload.split("-")[1],
        **(columns.of_record(record, _OF_WORKLOAD) if record else dict.fromkeys(_OF_WORKLOAD)),
        **(columns.levels(record, levels) if record else {f"level_{name}": None for name in levels}),
        **columns.arm_columns(run.arm),
        "confirms": run.confirms,
        **{name: getattr(run, name) for name in _RUN},
    }
