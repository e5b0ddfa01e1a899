"""Plot the study's six figures (Figs 4 to 9) from our own runs, as SVG and PNG.

matplotlib is imported only where something is drawn.
"""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_ipperf.report.flow.curves import CONFIDENCE, Scale, bars, linear_scale_of, values_of
from pytest_ipperf.report.plot_style import PAPER, axis, places, settings, shifts, style_of, svg_of, ticks
from pytest_ipperf.report.studies.router.experiments import StudyFigure
from pytest_ipperf.report.studies.router.series import FigureCurves, curves
from pytest_ipperf.report.studies.router.summary import Summary
from pytest_ipperf.report.tables.network_notes import testbed_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE_IN, _DPI = (7.2, 4.3), 150
_CROWD = 8
"""Number of levels above which their names are rotated, so that they do not overlap."""
_LINE = 118


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnFigure:
    """A plotted figure of the study. `bare` is the SVG without a title, for a page that has its own."""

    plot: StudyFigure
    curves: FigureCurves
    svg: str
    bare: str
    png: bytes


def draw(summary: Summary) -> list[DrawnFigure]:
    """Return all figures with at least two measured levels."""
    return [_drawn(each, summary) for each in curves(summary)]


def caption(found: FigureCurves, summary: Summary) -> str:
    """Return the explanation of dots and bars."""
    held = f"; {found.sweep.held}" if found.sweep.held else ""
    bars = f"bars: {100 * CONFIDENCE:.0f} % t intervals of the run values" if not found.bare else "without intervals"
    return (
        f"Mean of {found.runs} runs, {bars}; {testbed_text(summary.records)}, design {summary.records[0].design}{held}"
    )


def _drawn(found: FigureCurves, summary: Summary) -> DrawnFigure:
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see above
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    with settings(f"figure-{found.plot.number}", **{"axes.titlesize": 12}):
        figure = mpl_figure.Figure(figsize=_SIZE_IN, layout="constrained", facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        _fill(axes, found)
        figure.legend(loc="outside lower center", ncols=len(found.curves), frameon=False, fontsize=9)
        figure.suptitle(f"{found.plot.title} (paper 001, Fig. {found.plot.number}, again)", fontsize=12)
        axes.set_title(textwrap.fill(caption(found, summary), _LINE), fontsize=7.5)
        raster = io.BytesIO()
        figure.savefig(raster, format="png", dpi=_DPI, metadata={"Software": None})
        svg = svg_of(figure)
        figure.suptitle("")
        axes.set_title("")
        return DrawnFigure(plot=found.plot, curves=found, svg=svg, bare=svg_of(figure), png=raster.getvalue())


def _fill(axes: Axes, found: FigureCurves) -> None:
    at = places(found.sweep.values, sizes=found.sweep.dimension.unit == "bytes")
    for curve, shift in zip(found.curves, shifts(at, len(found.curves)), strict=True):
        colour, marker, line = style_of(curve.arm)
        axes.errorbar(
            [at[point.at] + shift for point in curve.points],
            [point.side.mean / found.unit.size for point in curve.points],
            yerr=bars(curve, found.unit),
            color=colour, marker=marker, linestyle=line, markersize=5, linewidth=1.4, capsize=3, elinewidth=1.2,
            label=curve.arm.title,
        )  # fmt: skip
    crowded = len(at) > _CROWD
    axes.set_xticks(at, ticks(found.sweep), rotation=45 if crowded else 0)
    axes.set_xlabel(axis(found.sweep))
    metric = found.experiment.measured
    axes.set_ylabel(f"{metric.title}{f' in {found.unit.name}' if found.unit.name else ''}")
    _from_zero(axes, found)
    axes.grid(visible=True, alpha=0.3)


def _from_zero(axes: Axes, found: FigureCurves) -> None:
    """Begin the axis at zero, unless all values lie in the upper half, where differences would be invisible."""
    if linear_scale_of(found.curves) is Scale.FROM_ZERO:
        axes.set_ylim(bottom=0, top=None if any(values_of(found.curves)) else 1)
    else:
        axes.set_ylabel(f"{axes.get_ylabel()}\n(axis does not begin at 0)")
