"""Plot the runs of a cell in the order of measurement, by epoch, and beside them the change with its margin."""

from __future__ import annotations

import math

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.answer.words import short_title
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.page.figures.arm_styles import key, styles_of
from pytest_ipperf.report.page.figures.axis import Axis, from_zero, linear, places
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.plot import Plot
from pytest_ipperf.report.page.html.markup import Markup
from pytest_ipperf.report.tables.paragraphs import capital

_BESIDE, _AMONG = 0.16, 0.16
"""Offset of an arm's dots from their epoch, and width over which an epoch's blocks are spread."""


def runs_figure(record: Record, name: str = "") -> Figure | None:
    """Return the figure of every run of both arms, its title after `name`; None if no run has a finite value."""
    metric, sides = METRICS[record.metric].metric, record.sides
    finite = [value for side in sides for value in side.values if math.isfinite(value)]
    if not finite:
        return None
    unit = unit_of(metric, finite)
    runs = record.epochs * record.blocks
    by_epoch = record.epochs > 1 and all(len(side.values) == runs for side in sides)
    blocks = record.blocks if by_epoch else 1
    last = max(len(side.values) // blocks for side in sides)
    title = "epoch, in the order of measurement" if by_epoch else "run, in the order of measurement"
    plot = Plot(
        places([*range(1, last + 1)], [str(at) for at in range(1, last + 1)]),
        _axis([value / unit.size for value in finite]),
        x_title=title,
        y_title=f"{short_title(metric)}{f', {unit.name}' if unit.name else ''}",
    )
    styles = styles_of(side.arm for side in sides)
    for number, side in enumerate(sides):
        aside = _BESIDE * (2 * number - 1) if len(sides) > 1 else 0.0
        points = [
            (at // blocks + 1 + aside + _spread(at % blocks, blocks), value / unit.size)
            for at, value in enumerate(side.values)
            if math.isfinite(value)
        ]
        if math.isfinite(side.mean):
            plot.across(side.mean / unit.size, f"mean {styles[side.arm].name}")
        plot.dots(points, styles[side.arm])
    return Figure(
        title=capital(f"{name}every run, in the order of measurement"),
        plots=[_html(plot, record)],
        caption=f"A dot is the value of a run; level lines: means of the {len(sides[-1].values)} runs of each arm.",
        key=key(styles),
    )


def _html(plot: Plot, record: Record) -> Markup:
    arms = " and ".join(side.arm.title for side in record.sides)
    return plot.html(f"Runs of {arms} in {record.cell}, in the order of measurement: {record.sentence}")


def _axis(values: list[float]) -> Axis:
    return from_zero(values) if min(values) < max(values) / 2 and min(values) >= 0 else linear(values)


def _spread(block: int, blocks: int) -> float:
    return (block - (blocks - 1) / 2) * _AMONG / max(1, blocks - 1)
