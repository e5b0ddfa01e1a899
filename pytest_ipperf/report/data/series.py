"""Name the series that monitoring systems get: one set of names for OpenMetrics, Influx and the Grafana dashboard.

A quantity is in base units, which its name has at the end, as the naming conventions of Prometheus ask; changes and
shares are ratios (0.05 for 5 %).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pytest_ipperf.core.records.arm_summary import QUANTILES, ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS

CHANGE, LOWER, UPPER, MARGIN = (
    f"ipperf_{name}_ratio" for name in ("change", "change_lower_bound", "change_upper_bound", "margin")
)
QUANTILE, ATTEMPTED, FAILED, VERDICT = "ipperf_quantile_seconds", "ipperf_attempted", "ipperf_failed", "ipperf_verdict"
BEGAN, DURATION, WHOLE = "ipperf_session_began_seconds", "ipperf_session_duration_seconds", "ipperf_session_whole"
HELP = {
    CHANGE: "Change of the arm against the reference, as a ratio or a difference of shares; positive is more.",
    LOWER: "One-sided lower bound of the change, which decides the verdict.",
    UPPER: "One-sided upper bound of the change, which decides the verdict.",
    MARGIN: "Acceptable change for the worse.",
    QUANTILE: "Percentile of the times of all connections of an arm; a failed one counts as infinite.",
    ATTEMPTED: "Connections, packets or replies of an arm.",
    FAILED: "Failed ones among those attempted.",
    VERDICT: "1 for the verdict of the cell, 0 for the others.",
    BEGAN: "When the session began, in seconds since 1970.",
    DURATION: "How long the session lasted.",
    WHOLE: "1 if every item of the session has an answer.",
}
_SUFFIXES = {"s": "seconds", "bit/s": "bits_per_second", "1": "ratio", "packet/s": "packets_per_second"}


class Sample(NamedTuple):
    """A value of a series; `name` is the full name, `labels` distinguish it from others of that name."""

    name: str
    labels: dict[str, str]
    value: float


def mean_name(metric: str) -> str:
    """Return the name of the series of a metric's mean: `ipperf_response_time_seconds`."""
    unit = METRICS[metric].metric.unit
    suffix = _SUFFIXES.get(unit) or unit.replace("/s", "_per_second").lower()
    return f"ipperf_{metric}_{suffix}"


def mean_help(metric: str) -> str:
    """Return the description of that series."""
    return f"Mean of the runs of an arm: {METRICS[metric].metric.title}."


def labels_of(record: Record) -> dict[str, str]:
    """Return the labels of a cell's workload."""
    return {
        "testbed": record.testbed,
        "protocol": record.protocol,
        "connections": f"{record.connections}",
        "payload_bytes": f"{record.payload_bytes}",
        "client": record.client,
        "server": record.server,
        "design": record.design,
        **{f"level_{name}": f"{value}" for name, value in record.levels.items()},
    }


def arm_labels(side: ArmSummary) -> dict[str, str]:
    """Return the labels of an arm."""
    arm = side.arm
    found = {"arm": f"{arm}", "ipver": f"{arm.ipver}", "transport": arm.transport}
    return {**found, "level": arm.level} if arm.level else found


def arm_samples(record: Record, side: ArmSummary) -> Iterator[Sample]:
    """Yield the values of an arm: its mean, percentiles and counts."""
    labels = {**labels_of(record), **arm_labels(side)}
    yield Sample(mean_name(record.metric), labels, side.mean)
    for name, share in QUANTILES.items():
        if name in side.quantiles:
            value = side.quantiles[name]
            found = float("inf") if value is None else value
            yield Sample(QUANTILE, {**labels, "quantile": f"{share:g}"}, found)
    yield Sample(ATTEMPTED, labels, side.attempted)
    yield Sample(FAILED, labels, side.attempted - side.completed)


def answer_samples(record: Record) -> Iterator[Sample]:
    """Yield the values of the answer, as far as there is one."""
    labels = {**labels_of(record), **arm_labels(record.test), "reference": f"{record.reference.arm}"}
    labels |= {"metric": record.metric}
    answer = {CHANGE: record.estimate, LOWER: record.lower_bound, UPPER: record.upper_bound}
    margin = record.margin_fraction if record.judges else None
    for name, value in {**answer, MARGIN: None if margin is None else 100 * margin}.items():
        if value is not None:
            yield Sample(name, labels, value / 100)
