"""Summary of one arm of a cell: its run values, connections and phases."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.client_load import ClientLoad, client_load
from pytest_ipperf.core.measurement.link_rate import LinkRate
from pytest_ipperf.core.measurement.probe_delay import DELAYS, LOSS
from pytest_ipperf.core.measurement.run import Run, leading
from pytest_ipperf.core.records.transfer_course import TransferCourse, course_from_plain, transfer_course
from pytest_ipperf.core.stats.percentile import percentile

# Most kinds of failure that a record names; the event log has all of them.
_KINDS = 8
QUANTILES: Mapping[str, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
"""Shares of an arm's quantiles, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """Summary of one arm. `values` are its run values in the metric's unit, in order of measurement, without warm-ups.

    `completed_values` are the means of the completed connections alone, for every run that has one: the average of
    paper 000. It differs from the run's value if there are failures. `phases` are medians over all completed
    connections in seconds: dns, connect, first_byte, total, each since the connection's start; empty if none completed.
    `instrument` is the load of the client, and `pace` the rate of the links, if they have one. `figures` are the means
    over the runs of all values of metrics and counts of engines, each in its base unit; `notes` are the engines'
    sentences about what limits the figures. `quantiles` are the percentiles of the times of all connections in seconds,
    by the names of `QUANTILES`, with failed connections as infinite: None means that the percentile is such a one. They
    are empty for flows, and in records of earlier versions. Only transfers have a `course`. Where loads are compared,
    `probe` has each run's percentiles of the delay and its loss, by the names of `probe_facts`; None is infinite.
    """

    arm: Arm
    values: tuple[float, ...]
    attempted: int
    completed: int
    failed: dict[str, int]
    phases: dict[str, float]
    instrument: ClientLoad | None = None
    completed_values: tuple[float, ...] = ()
    pace: LinkRate | None = None
    figures: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    quantiles: dict[str, float | None] = field(default_factory=dict)
    course: TransferCourse | None = None
    probe: dict[str, tuple[float | None, ...]] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean of the run values."""
        return statistics.fmean(self.values)

    @property
    def completed_mean(self) -> float:
        """Mean of the completed connections, without the deadlines that failures count as; `mean` if none completed."""
        return statistics.fmean(self.completed_values or self.values)


def summarise(
    arm: Arm,
    metric: str,
    runs: Iterable[Run],
    rows: Sequence[tuple[float, ...]],
    phases: Sequence[str],
    *,
    baseline_cost_s: float | None = None,
) -> ArmSummary:
    """Return the summary of an arm's runs, by one of their metrics.

    A row holds the start, a column for each of `phases`, how late it was read, and how late it was opened.
    """
    counted = [run for run in runs if run.arm == arm and not run.warmup]
    failed: Counter[str] = Counter()
    for run in counted:
        failed.update(run.failed)
    columns = list(zip(*rows, strict=True))[1:] if rows else []
    behind, late = (columns.pop(), columns.pop()) if rows else ((), ())
    values = tuple(value for run in counted if (value := run.values[metric]) is not None)
    client_facts = [run.client for run in counted if run.client is not None]
    summary = ArmSummary(
        arm=arm,
        values=values,
        attempted=sum(run.attempted for run in counted),
        completed=sum(run.completed for run in counted),
        failed=dict(sorted(leading(failed, _KINDS).items())),
        phases={name: statistics.median(column) for name, column in zip(phases, columns, strict=bool(columns))},
        completed_values=tuple(run.completed_s for run in counted if run.completed_s is not None),
        figures=_means(counted),
        notes=tuple(dict.fromkeys(note for run in counted for note in run.notes)),
        course=transfer_course(counted),
        probe=_probe(counted),
    )
    if not client_facts:
        return summary
    part = client_load(client_facts, late, behind, mean_s=summary.completed_mean, baseline_cost_s=baseline_cost_s)
    return dataclasses.replace(summary, instrument=part)


def quantiles_of(runs: Iterable[Run]) -> dict[str, float | None]:
    """Return the quantiles of all connections of an arm's runs, as `ArmSummary` has them; empty without connections."""
    counted = [run for run in runs if not run.warmup]
    times = sorted(chain.from_iterable(run.times for run in counted))
    times += [math.inf] * sum(run.failures for run in counted)
    if not times:
        return {}
    found = {name: percentile(times, share) for name, share in QUANTILES.items()}
    return {name: float(value) if math.isfinite(value) else None for name, value in found.items()}


def _probe(runs: Sequence[Run]) -> dict[str, tuple[float | None, ...]]:
    """Return the facts of a probe of all runs, in their order; empty if a run has none."""
    if not runs or any(LOSS not in run.facts for run in runs):
        return {}
    return {name: tuple(run.facts.get(name) for run in runs) for name in (*DELAYS, LOSS)}


def _means(runs: Sequence[Run]) -> dict[str, float]:
    """Return the mean of each figure that all runs have; a mean over only some runs would be biased."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, value in {**run.facts, **run.values}.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    return {name: statistics.fmean(each) for name, each in values.items() if len(each) == len(runs)}


def summary_from_plain(plain: Mapping[str, Any]) -> ArmSummary:
    """Read the fields of a summary from a record; UsageError for an invalid arm."""
    parts = {"instrument": ClientLoad, "pace": LinkRate}
    loads = {name: part(**plain[name]) for name, part in parts.items() if plain[name]}
    lists = {name: tuple(plain[name]) for name in ("values", "completed_values", "notes")}
    course = course_from_plain(plain.get("course"))
    probe = {name: tuple(values) for name, values in plain.get("probe", {}).items()}
    return ArmSummary(**{**plain, **lists, **loads, "probe": probe, "arm": Arm.parse(plain["arm"]), "course": course})
