"""Plot a sweep: means above, changes with their margin below. matplotlib is imported only where something is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.curves import Curve, Scale, bars, change_of, scale_of, values_of
from pytest_ipperf.report.flow.sweeps import Sweep
from pytest_ipperf.report.page.words import short_title
from pytest_ipperf.report.plot_style import INK, PAPER, axis, places, settings, shifts, style_of, svg_of, ticks
from pytest_ipperf.report.tables.cell_results import margin_change
from pytest_ipperf.report.tables.intervals import wider_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

FONT_PT = 8.5
DOTTED = (0, (1, 1.5))
"""Line style of margins."""
_WIDTH_IN, _HIGH_IN, _LOW_IN = 5.8, 4.6, 2.9
_CROWD = 64
"""Total length of the levels' names, gaps included, above which they are rotated."""
_APART, _ASIDE = 0.08, 0.012
"""Maximum offset of the outermost arms' dots: share of the distance to the nearest level, and share of the axis."""


def by_size(sweep: Sweep) -> bool:
    """Return whether the levels are sizes, for which doubling is an equal distance everywhere."""
    return sweep.dimension.unit != "bit/s"


def margins_differ(curves: Sequence[Curve]) -> bool:
    """Return whether arms differ in their margins, or in the levels that have one."""
    return len({tuple(_limits(curve)) for curve in curves if curve.judged}) > 1


def level_svg(sweep: Sweep, curves: Sequence[Curve], unit: Unit) -> str:
    """Return the plot as SVG; with changes if any was judged."""
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see above
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    metric, judged = METRICS[sweep.records[0].metric].metric, [curve for curve in curves if curve.judged]
    crowded, panels = sum(len(text) + 2 for text in ticks(sweep)) > _CROWD, 2 if judged else 1
    with settings(f"{sweep.dimension.name} {metric.name}", **{"font.size": FONT_PT}):
        figure = mpl_figure.Figure(figsize=(_WIDTH_IN, _HIGH_IN if judged else _LOW_IN), facecolor=PAPER)
        FigureCanvasAgg(figure)
        room = (0.17 if crowded else 0.105) * (1 if judged else 1.5)
        figure.subplots_adjust(left=0.13, right=0.985, top=0.985, bottom=room, hspace=0.09)
        made = figure.subplots(panels, 1, sharex=True, squeeze=False, height_ratios=[3, 2][:panels])
        at = places(sweep.values, sizes=by_size(sweep))
        aside = dict(zip((curve.arm for curve in curves), _beside(at, len(curves)), strict=True))
        _means(made[0, 0], curves, unit, at, aside)
        made[0, 0].set_ylabel(f"{short_title(metric)}{f', {unit.name}' if unit.name else ''}")
        if judged:
            _changes(made[1, 0], judged, at, aside)
        made[-1, 0].set_xticks(at, ticks(sweep), rotation=45 if crowded else 0)
        made[-1, 0].set_xlabel(axis(sweep))
        return svg_of(figure)


def _beside(at: Sequence[float], arms: int) -> list[float]:
    """Return the offset of each arm's dots from their levels, which keeps equal bars visible."""
    most = min(_APART * min(after - before for before, after in pairwise(at)), _ASIDE * (max(at) - min(at)))
    found = shifts(at, arms)
    return [most * shift / found[-1] if arms > 1 else 0.0 for shift in found]


def grid(axes: Axes, axis_: Literal["both", "y"] = "both") -> None:
    """Draw faint lines behind the curves."""
    axes.grid(visible=True, axis=axis_, color=INK, alpha=0.14, linewidth=0.6)


def plain_log(axis_: Axis) -> None:
    """Label a logarithmic axis with plain numbers, enough of them for less than a decade too."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    axis_.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis_.set_major_formatter(lambda value, _: f"{value:g}")
    axis_.set_minor_formatter(NullFormatter())


def _means(axes: Axes, curves: Sequence[Curve], unit: Unit, at: Sequence[float], aside: Mapping[Arm, float]) -> None:
    for curve in curves:
        x = [at[point.at] + aside[curve.arm] for point in curve.points]
        _draw(axes, curve, x, [point.side.mean / unit.size for point in curve.points], bars(curve, unit))
    scale = scale_of(curves)
    if scale is Scale.LOGARITHMIC:
        axes.set_yscale("log")
        plain_log(axes.yaxis)
    elif scale is Scale.FROM_ZERO:
        axes.set_ylim(bottom=0, top=None if any(values_of(curves)) else 1)
    grid(axes)


def _changes(axes: Axes, curves: Sequence[Curve], at: Sequence[float], aside: Mapping[Arm, float]) -> None:
    axes.axhline(0, color=INK, linewidth=0.8)
    for curve in curves:
        changes = [(at[level], *ends) for level, ends in ((level, change_of(record)) for level, record in curve.judged)]
        x = [place + aside[curve.arm] for place, *_ in changes]
        reaches = [[max(0.0, middle - low), max(0.0, high - middle)] for _, middle, low, high in changes]
        _draw(axes, curve, x, [middle for _, middle, *_ in changes], list(zip(*reaches, strict=True)), thick=True)
        for place, (_, record) in zip(x, curve.judged, strict=True):
            if (wider := wider_interval(record)) and math.isfinite(wider.low) and math.isfinite(wider.high):
                axes.plot([place, place], [wider.low, wider.high], color=style_of(curve.arm)[0], linewidth=0.8)
    ends = axes.get_xlim()
    for curve in curves if margins_differ(curves) else curves[:1]:
        _margin(axes, curve, at, ends, own=margins_differ(curves))
    axes.set_xlim(ends)
    axes.set_ylabel(f"change, {curves[0].judged[0][1].change_unit}")
    grid(axes)


def _margin(axes: Axes, curve: Curve, at: Sequence[float], ends: tuple[float, float], *, own: bool) -> None:
    """Draw a margin over the whole width; if arms have their own margins, with the arm's colour and hollow marker."""
    limits = [(at[level], found) for level, found in _limits(curve)]
    (_, first), (_, last) = limits[0], limits[-1]
    colour, marker, _ = style_of(curve.arm)
    axes.plot(
        *zip((ends[0], first), *limits, (ends[1], last), strict=True), color=colour if own else INK,
        linestyle=DOTTED, linewidth=1.4, marker=marker if own else "", markevery=slice(1, -1), markersize=5,
        markerfacecolor="none",
    )  # fmt: skip


def _limits(curve: Curve) -> list[tuple[int, float]]:
    return [(level, margin_change(record) or 0.0) for level, record in curve.judged]


def _draw(
    axes: Axes,
    curve: Curve,
    x: Sequence[float],
    y: Sequence[float],
    reaches: list[tuple[float, ...]],
    *,
    thick: bool = False,
) -> None:
    colour, marker, dashes = style_of(curve.arm)
    axes.errorbar(
        x, y, yerr=reaches, color=colour, marker=marker, linestyle=dashes, markersize=4.5, linewidth=1.2,
        capsize=0 if thick else 2.5, elinewidth=3.4 if thick else 1.1,
    )  # fmt: skip
