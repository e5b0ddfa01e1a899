"""Plot a sweep: the changes with their margins above, as the main figure, and the means below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.answer.words import short_title
from pytest_ipperf.report.flow.curves import Curve, Scale, change_of, scale_of, values_of
from pytest_ipperf.report.flow.sweeps import Sweep
from pytest_ipperf.report.page.figures.arm_styles import ArmStyle
from pytest_ipperf.report.page.figures.axis import Axis, from_zero, linear, logarithmic, places
from pytest_ipperf.report.page.figures.plot import Plot
from pytest_ipperf.report.plot_style import axis as axis_title
from pytest_ipperf.report.plot_style import places as places_of
from pytest_ipperf.report.plot_style import shifts, ticks
from pytest_ipperf.report.tables.cell_results import margin_change
from pytest_ipperf.report.tables.intervals import wider_interval

_APART, _ASIDE = 0.08, 0.012
"""Maximum offset of the outermost arms' dots: share of the distance to the nearest level, and share of the axis."""
Styles = Mapping[Arm, ArmStyle]


def by_size(sweep: Sweep) -> bool:
    """Return whether the levels are sizes, for which doubling is an equal distance everywhere."""
    return sweep.dimension.unit != "bit/s"


def margins_differ(curves: Sequence[Curve]) -> bool:
    """Return whether arms differ in their margins, or in the levels that have one."""
    return len({tuple(limits(curve)) for curve in curves if curve.judged}) > 1


def limits(curve: Curve) -> list[tuple[int, float]]:
    """Return the levels of an arm with their margins as changes."""
    return [(level, margin_change(record) or 0.0) for level, record in curve.judged]


def change_plot(sweep: Sweep, curves: Sequence[Curve], styles: Styles) -> Plot:
    """Return the plot of the judged changes, with their margin."""
    at = places_of(sweep.values, sizes=by_size(sweep))
    aside = dict(zip((curve.arm for curve in curves), offsets(at, len(curves)), strict=True))
    judged = [curve for curve in curves if curve.judged]
    own_records = [record for curve in judged for _, record in curve.judged]
    changes = [change_of(record) for record in own_records]
    changes += [(each.low, each.high, 0.0) for record in own_records if (each := wider_interval(record))]
    margins = [limit for curve in judged for _, limit in limits(curve)]
    plot = Plot(
        _levels(sweep, at),
        linear([end for ends in changes for end in ends], include=[0.0, *margins]),
        x_title=axis_title(sweep),
        y_title=f"change, {judged[0].judged[0][1].change_unit}",
    )
    plot.across(0.0, "zero")
    own = margins_differ(judged)
    for curve in judged if own else judged[:1]:
        name = f"limit {styles[curve.arm].name}" if own else "limit"
        points = [(at[level], limit) for level, limit in limits(curve)]
        if len(points) > 1:
            plot.line([(min(at) - 9e9, points[0][1]), *points, (max(at) + 9e9, points[-1][1])], name)
        else:
            plot.across(points[0][1], name)
    for curve in judged:
        style, shift, dots = styles[curve.arm], aside[curve.arm], []
        for level, record in curve.judged:
            middle, low, high = change_of(record)
            if (wider := wider_interval(record)) and math.isfinite(wider.low) and math.isfinite(wider.high):
                plot.upright(at[level] + shift, wider.low, wider.high, f"reach {style.name}")
            plot.upright(at[level] + shift, low, high, f"thick {style.name}")
            dots.append((at[level] + shift, middle))
        plot.line(dots, f"faint {style.name}")
        plot.dots(dots, style)
    return plot


def mean_plot(sweep: Sweep, curves: Sequence[Curve], unit: Unit, styles: Styles, *, alone: bool) -> Plot:
    """Return the plot of the means; lower than the changes unless it is `alone`."""
    metric = METRICS[sweep.records[0].metric].metric
    at = places_of(sweep.values, sizes=by_size(sweep))
    ends = [
        end / unit.size
        for curve in curves
        for point in curve.points
        for end in (point.side.mean, point.side.mean - point.bars[0], point.side.mean + point.bars[1])
    ]
    plot = Plot(
        _levels(sweep, at),
        _mean_axis(curves, ends),
        x_title=axis_title(sweep),
        y_title=f"{short_title(metric)}{f', {unit.name}' if unit.name else ''}",
        height="middle" if alone else "low",
    )
    for curve, shift in zip(curves, offsets(at, len(curves)), strict=True):
        style = styles[curve.arm]
        dots = [(at[point.at] + shift, point.side.mean / unit.size) for point in curve.points]
        for point, (x, y) in zip(curve.points, dots, strict=True):
            below, above = (reach / unit.size for reach in point.bars)
            if below or above:
                plot.upright(x, y - below, y + above, f"reach {style.name}")
        plot.line(dots, style.name)
        plot.dots(dots, style)
    return plot


def offsets(at: Sequence[float], arms: int) -> list[float]:
    """Return the offset of each arm's dots from their levels, which keeps equal bars visible."""
    most = min(_APART * min(after - before for before, after in pairwise(at)), _ASIDE * (max(at) - min(at)))
    found = shifts(at, arms)
    return [most * shift / found[-1] if arms > 1 else 0.0 for shift in found]


def _levels(sweep: Sweep, at: Sequence[float]) -> Axis:
    return places(at, ticks(sweep))


def _mean_axis(curves: Sequence[Curve], ends: Sequence[float]) -> Axis:
    scale = scale_of(curves)
    if scale is Scale.LOGARITHMIC:
        return logarithmic([end for end in ends if end > 0])
    if scale is Scale.FROM_ZERO:
        return from_zero([*ends, *([] if any(values_of(curves)) else [1.0])])
    return linear(ends)
