"""Metrics of a cell in the format of Allure 3, which keeps them from session to session beside the statuses."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS

_UNITS = {"s": (1e3, "ms"), "bit/s": (1e-6, "Mbit/s"), "1": (1.0, "")}
"""Factor and displayed unit of each base unit; fixed, so that figures of different sessions are comparable."""
_DIGITS = 4


def metrics_json(record: Record, result: Any) -> str:
    """Return as JSON the change against the reference, if there is one, and the arm's mean, keyed by history id."""
    when = {"start": result.start, "stop": result.stop, "title": result.name}
    better = METRICS[record.metric].metric.direction.partition("_")[0]
    figures = [
        {"id": f"{result.uuid}-{name}", "key": f"{result.historyId}-{name}", **when, **facts, "better": better}
        for name, facts in _figures(record)
        if math.isfinite(facts["value"])  # JSON has no infinities
    ]
    return json.dumps(figures, indent=2)


def _figures(record: Record) -> Iterator[tuple[str, dict[str, Any]]]:
    metric = METRICS[record.metric].metric
    what = f"{PROTOCOLS[record.protocol].title}: {metric.title}"
    if record.estimate is not None:
        title = f"{what}, change against {record.reference.arm.title}"
        yield "change", _figure(record.estimate, record.change_unit, title)
    times, unit = (1e2, "%") if metric.scale == "difference" else _UNITS.get(metric.unit, (1.0, metric.unit))
    yield "mean", _figure(times * record.test.mean, unit, f"{what}, mean of the runs")


def _figure(value: float, unit: str, group: str) -> dict[str, Any]:
    return {"value": float(f"{value:.{_DIGITS}g}"), "unit": unit, "group": group, "groupTitle": group}
