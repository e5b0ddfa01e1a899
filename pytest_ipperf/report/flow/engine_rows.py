"""Build the rows of a flow's further figures, declared by its protocol: means over an arm's runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_ipperf.core.portable.figure_row import FigureRow, Figures
from pytest_ipperf.core.portable.scaling import time_text
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import flow
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.tables import layout
from pytest_ipperf.report.tables.arm_rows import failure_rows
from pytest_ipperf.report.tables.layout import Row
from pytest_ipperf.report.tables.network_notes import missed_rows


def engine_rows(
    protocol: str, metric: str, sides: Mapping[int, ArmSummary], columns: Sequence[int], *, detail: bool = True
) -> list[Row]:
    """Return the rows of an arm. The table's own metric and figures that no engine reported have no row.

    `detail` is that of `failure_rows`.
    """
    rows: list[Row] = []
    for declared in _declared(protocol):
        known = declared.beside(metric)
        # A figure with an empty text, such as a count of zero, is left out like an unknown one.
        found = {at: side.figures for at, side in sides.items() if known.needs <= side.figures.keys()}
        texts = {at: known.text(figures) for at, figures in found.items()}
        if any(texts.values()) and known.needs != {metric}:
            rows.append(layout.row(f"  {known.title}", texts, columns, str))
    rates = {at: side.pace for at, side in sides.items() if side.pace is not None}
    return rows + failure_rows(sides, columns, detail=detail) + missed_rows(rates, columns)


def _declared(protocol: str) -> list[FigureRow]:
    """Return the rows that the protocol declares, or else those of all its metrics."""
    found = flow(protocol)
    return [_of_metric(each) if isinstance(each, str) else each for each in found.rows or found.metrics]


def _of_metric(name: str) -> FigureRow:
    """Return the row of another metric of the same runs."""
    metric = METRICS[name].metric

    def text(figures: Figures) -> str:
        if metric.unit == "s":
            return time_text(figures[name])
        unit = unit_of(metric, [figures[name]])
        return f"{unit.text(figures[name])} {unit.name}".rstrip()

    return FigureRow(metric.label or metric.title, frozenset({name}), text)
