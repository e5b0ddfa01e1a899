"""Grafana: a dashboard whose queries have the names of format `openmetrics`, to be imported once for all sessions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.data import series as names
from pytest_ipperf.report.formats.base import Report

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_FILTER = 'testbed=~"$testbed",protocol=~"$protocol"'
_CELL = "{{protocol}} {{arm}} c{{connections}} {{payload_bytes}}"
_UNITS = {"s": "s", "bit/s": "bps", "1": "percentunit", "packet/s": "pps"}
_COLUMNS, _HEIGHT = 24, 8


@dataclass(frozen=True, kw_only=True)
class Grafana(Report):
    """A dashboard with the verdicts, the changes against their margins, percentiles, and means of the session."""

    name: str = "grafana"
    title: str = "Grafana dashboard"
    suffix: str = ".grafana.json"

    def render(self, summary: SessionSummary) -> bytes:
        metrics = sorted({record.metric for record in summary.records})
        return json.dumps(dashboard(metrics), indent=1).encode() + b"\n"


report = Grafana()


def dashboard(metrics: Iterable[str]) -> dict[str, Any]:
    """Return the dashboard (Grafana's JSON model) with a panel for the mean of each of the metrics."""
    panels = [
        _panel("Cells beyond their margin", [f'sum({_series(names.VERDICT, _verdict("exceeds"))})'], kind="stat"),
        _panel("Inconclusive cells", [f'sum({_series(names.VERDICT, _verdict("inconclusive"))})'], kind="stat"),
        _panel("Age of the last session", [f"time() - max({names.BEGAN})"], kind="stat", unit="s"),
        _panel("Change against the reference", [_series(names.CHANGE)], unit="percentunit", legend=_CELL),
        _panel(
            "Distance of the deciding bound from the margin (below 0 is within)",
            [f"{_series(names.UPPER)} - {_series(names.MARGIN)}"],
            unit="percentunit",
            legend=_CELL,
        ),
        *(
            _panel(f"{share} quantile", [_series(names.QUANTILE, f'quantile="{share}"')], unit="s", legend=_CELL)
            for share in ("0.5", "0.95", "0.99")
        ),
        _panel(
            "Failed connections", [f"{_series(names.FAILED)} / {_series(names.ATTEMPTED)}"], unit="percentunit",
            legend=_CELL,
        ),
        *(
            _panel(METRICS[name].metric.title, [_series(names.mean_name(name))], unit=_unit(name), legend=_CELL)
            for name in metrics
        ),
    ]  # fmt: skip
    return {
        "title": "pytest-ipperf",
        "uid": "pytest-ipperf",
        "schemaVersion": 39,
        "version": 1,
        "tags": ["pytest-ipperf", "ipv6"],
        "time": {"from": "now-30d", "to": "now"},
        "templating": {"list": [_source(), *(_variable(name) for name in ("testbed", "protocol"))]},
        "panels": _placed(panels),
    }


def _unit(metric: str) -> str:
    return _UNITS.get(METRICS[metric].metric.unit, "short")


def _verdict(code: str) -> str:
    return f'verdict="{code}"'


def _series(name: str, more: str = "") -> str:
    return f"{name}{{{_FILTER}{f',{more}' if more else ''}}}"


def _panel(title: str, queries: list[str], *, kind: str = "timeseries", unit: str = "short", legend: str = "") -> Any:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": _DATASOURCE, "expr": query, "legendFormat": legend}
        for at, query in enumerate(queries)
    ]
    defaults = {"unit": unit}
    return {
        "type": kind,
        "title": title,
        "datasource": _DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }


def _placed(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Place single numbers three to a row, then the others two to a row."""
    placed, x, y = [], 0, 0
    for number, panel in enumerate(panels, start=1):
        width = _COLUMNS // (3 if panel["type"] == "stat" else 2)
        if x + width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        placed.append({**panel, "id": number, "gridPos": {"x": x, "y": y, "w": width, "h": _HEIGHT}})
        x += width
    return placed


def _source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": f"label_values({names.VERDICT}, {name})",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }
