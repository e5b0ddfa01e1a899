"""Plot the runs of both arms by epoch, and beside them the change with its interval and margin.

matplotlib is imported only where something is drawn.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.change_interval import ChangeInterval
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.allure_card.small_png import small_png
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.plot_style import INK, OTHER, PAPER, settings, style_of
from pytest_ipperf.report.tables.cell_results import change_text, margin_change
from pytest_ipperf.report.tables.component_rows import deciding_part, title_of
from pytest_ipperf.report.tables.intervals import deciding_interval, wider_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE_IN, _DPI = (8.2, 2.9), 110
_BESIDE = 0.14
"""Offset of an arm's dots from their epoch."""
_AMONG = 0.12
"""Width over which an epoch's blocks are spread."""
_TICKS = 12
"""Maximum number of labelled epochs or runs."""


def plot(record: Record) -> bytes:
    """Return the plot as PNG; the same record gives the same bytes."""
    with settings(record.cell, **{"font.size": 9}):
        written = io.BytesIO()
        draw(record).savefig(written, format="png", dpi=_DPI, metadata={"Software": None})
    return small_png(written.getvalue())


def draw(record: Record) -> Figure:
    """Return the figure of the runs and, if the design judges, of the change."""
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see the module's charter
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    found = deciding_interval(record)
    answered = found is not None and all(map(math.isfinite, (_estimate(record), found.low, found.high)))
    figure = mpl_figure.Figure(figsize=_SIZE_IN, layout="constrained", facecolor=PAPER)
    FigureCanvasAgg(figure)
    if found is not None and answered:
        runs, beside = figure.subplots(1, 2, width_ratios=(3, 2))
        _draw_change(beside, record, found)
    else:
        runs = figure.subplots()
    _draw_runs(runs, record)
    return figure


def _draw_runs(axes: Axes, record: Record) -> None:
    metric = METRICS[record.metric].metric
    sides = record.sides
    finite = [value for side in sides for value in side.values if math.isfinite(value)] or [0.0]
    unit = unit_of(metric, finite)
    by_epoch = _by_epoch(record)
    blocks = record.blocks if by_epoch else 1
    for number, side in enumerate(sides):
        _draw_side(axes, side, blocks, unit, aside=_BESIDE * (2 * number - 1))
    last = max(len(side.values) // blocks for side in sides)
    axes.set_xlabel("epoch" if by_epoch else "run")
    axes.set_xticks(range(1, last + 1, math.ceil(max(1, last) / _TICKS)))
    axes.set_xlim(0.5, max(1, last) + 0.5)
    axes.set_ylabel(f"{metric.title}{f', {unit.name}' if unit.name else ''}")
    axes.set_title("every run; lines: means", fontsize=9)
    axes.grid(visible=True, axis="y", alpha=0.3)
    least, most = min(finite), max(finite)
    if least < most / 2 or not most:
        axes.set_ylim(bottom=0, top=None if most else 1)
    else:
        axes.set_ylabel(f"{axes.get_ylabel()}\n(axis does not begin at 0)")
    axes.legend(frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.22), fontsize=9, handlelength=3.5)


def _by_epoch(record: Record) -> bool:
    """Return whether values can be assigned to epochs: there are several, and no run lacks a value."""
    runs = record.epochs * record.blocks
    return record.epochs > 1 and all(len(side.values) == runs for side in record.sides)


def _draw_side(axes: Axes, side: ArmSummary, blocks: int, unit: Unit, *, aside: float) -> None:
    colour, marker, line = style_of(side.arm)
    dots: dict[str, Any] = {"marker": marker, "markersize": 5, "color": colour}
    spread = [(block - (blocks - 1) / 2) * _AMONG / max(1, blocks - 1) for block in range(blocks)]
    where = [at // blocks + 1 + aside + spread[at % blocks] for at in range(len(side.values))]
    axes.plot(where, [value / unit.size for value in side.values], linestyle="none", alpha=0.85, **dots)
    known = math.isfinite(side.mean)
    if known:
        axes.axhline(side.mean / unit.size, color=colour, linestyle=line, linewidth=1.2)
    # Only for the legend, which shows marker and line together.
    title = side.arm.title
    axes.plot([], [], linestyle=line if known else "none", linewidth=1.2, label=title, **dots)


def _estimate(record: Record) -> float:
    return math.nan if record.estimate is None else record.estimate


def _draw_change(axes: Axes, record: Record, found: ChangeInterval) -> None:
    """Draw the interval that decides as a thick bar, with whiskers where the two-sided one is wider."""
    estimate, wider = _estimate(record), wider_interval(record)
    low, high = min(found.low, wider.low if wider else math.inf), max(found.high, wider.high if wider else -math.inf)
    colour, marker, _ = style_of(record.test.arm)
    axes.axvline(0, color=INK, linewidth=1, alpha=0.5)
    if wider and math.isfinite(low) and math.isfinite(high):
        axes.plot([low, high], [0, 0], color=colour, linewidth=1, marker="|", markersize=9)
    else:
        low, high = found.low, found.high
    axes.plot([found.low, found.high], [0, 0], color=colour, linewidth=5, alpha=0.6, solid_capstyle="butt")
    axes.plot([estimate], [0], color=colour, marker=marker, markersize=7)
    limit = margin_change(record)
    if limit is not None:
        worse = (limit, limit + 1e9) if limit > 0 else (limit - 1e9, limit)
        ends = min(low, 0.0, limit), max(high, 0.0, limit)
        axes.axvspan(*worse, facecolor="none", edgecolor=OTHER[0], hatch="///", alpha=0.35, linewidth=0)
        axes.axvline(limit, color=INK, linewidth=1.4, linestyle="--")
        room = 0.12 * (ends[1] - ends[0] or 1.0)
        axes.set_xlim(ends[0] - room, ends[1] + room)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    reference = record.reference.arm.title
    beyond = "" if limit is None else f"\nhatched: beyond the margin of {percent_text(limit)} {record.change_unit}"
    axes.set_xlabel(f"change against {reference}, {record.change_unit}{beyond}")
    part = deciding_part(record)
    beside = (
        "" if part.metric == record.metric else f"\n{record.verdict} by {title_of(part.metric)}, not by this change"
    )
    axes.set_title(f"change {change_text(record)}\n{found.title}{beside}", fontsize=9)
