"""Plot the figures of a study from our own runs, as SVG and PNG.

matplotlib is imported only where something is drawn.
"""

from __future__ import annotations

import io
import itertools
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.flow.curves import CONFIDENCE, CurvePoint, Scale, bars, linear_scale_of, values_of
from pytest_ipperf.report.plot_style import PAPER, axis, places, settings, shifts, style_of, svg_of, ticks
from pytest_ipperf.report.studies.figures.curves import FigureCurves
from pytest_ipperf.report.studies.figures.experiment import StudyFigure
from pytest_ipperf.report.tables.network_notes import testbed_text
from pytest_ipperf.report.tables.paragraphs import capital

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE_IN, _DPI = (7.2, 4.3), 150
_CROWD = 8
"""Number of levels above which their names are rotated, so that they do not overlap."""
_LINE = 118
_NAME_WIDTH = 0.035
"""Width of a level's aslant name, as a share of the axis."""
_KEYS_WIDE = 84
"""Characters of curves' names in a line of the key."""
_FILLS = ("full", "none", "left", "top")
"""Fillings of the markers, by setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnFigure:
    """A plotted figure of a study, and its numbers as a table of `head` and `rows`.

    `bare` is the SVG without a title, for a page that has its own; `caption` explains dots and bars.
    """

    plot: StudyFigure
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    svg: str
    bare: str
    png: bytes


def draw(found: FigureCurves, scale: Callable[[FigureCurves], Scale] | None = None) -> DrawnFigure:
    """Return the figure of these curves; `scale` chooses the axis of the means, by default a linear one."""
    kind = scale(found) if scale else linear_scale_of(found.curves)
    svg, bare, png = drawn(
        found.plot, caption(found), lambda axes: _fill(axes, found, kind), [curve.label for curve in found.curves]
    )
    return DrawnFigure(
        plot=found.plot,
        caption=caption(found),
        head=(capital(found.sweep.dimension.title), *(_head(found, curve.label) for curve in found.curves)),
        rows=tuple((text, *_numbers(found, at)) for at, text in enumerate(found.sweep.texts)),
        svg=svg,
        bare=bare,
        png=png,
    )


def caption(found: FigureCurves) -> str:
    """Return the explanation of dots and bars."""
    held = f"; {found.sweep.held}" if found.sweep.held else ""
    intervals = (
        f"bars: {100 * CONFIDENCE:.0f} % t intervals of the run values" if not found.bare else "without intervals"
    )
    records = found.sweep.records
    return f"Mean of {found.runs} runs, {intervals}; {where(records)}, design {records[0].design}{held}"


def where(records: Sequence[Record]) -> str:
    """Return the testbeds of records with their properties."""
    by_testbed: dict[str, list[Record]] = {}
    for record in records:
        by_testbed.setdefault(record.testbed, []).append(record)
    return "; ".join(testbed_text(own) for own in by_testbed.values())


def drawn(plot: StudyFigure, below: str, fill: Callable[[Axes], None], labels: Sequence[str]) -> tuple[str, str, bytes]:
    """Return a figure as SVG, as SVG without a title, and as PNG; `fill` draws curves with these `labels`."""
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see above
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    with settings(f"figure-{plot.number}", **{"axes.titlesize": 12}):
        figure = mpl_figure.Figure(figsize=_SIZE_IN, layout="constrained", facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        fill(axes)
        axes.grid(visible=True, alpha=0.3)
        columns = max(1, min(len(labels), _KEYS_WIDE // (8 + max(map(len, labels)))))
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        figure.suptitle(plot.heading, fontsize=12)
        axes.set_title(textwrap.fill(below, _LINE), fontsize=7.5)
        raster = io.BytesIO()
        figure.savefig(raster, format="png", dpi=_DPI, metadata={"Software": None})
        svg = svg_of(figure)
        figure.suptitle("")
        axes.set_title("")
        return svg, svg_of(figure), raster.getvalue()


def level_places(values: Sequence[Value], *, sizes: bool) -> list[float]:
    """Return the positions of levels: those of `places`, or even ones where names would overlap."""
    at = places(values, sizes=sizes)
    nearest = min(after - before for before, after in itertools.pairwise(at))
    return at if nearest > (at[-1] - at[0]) * _NAME_WIDTH else [float(place) for place in range(len(at))]


def level_axis(axes: Axes, found_texts: Sequence[str], at: Sequence[float], label: str) -> None:
    """Give the axis of the levels its names and its label."""
    crowded = len(at) > _CROWD
    axes.set_xticks(at, found_texts, rotation=45 if crowded else 0)
    axes.set_xlabel(label)


def _fill(axes: Axes, found: FigureCurves, scale: Scale) -> None:
    at = level_places(found.sweep.values, sizes=found.sweep.dimension.unit == "bytes")
    for curve, shift in zip(found.curves, shifts(at, len(found.curves)), strict=True):
        colour, marker, line = style_of(curve.arm)
        fill: Any = _FILLS[curve.setting % len(_FILLS)]
        axes.errorbar(
            [at[point.at] + shift for point in curve.points],
            [point.side.mean / found.unit.size for point in curve.points],
            yerr=bars(curve, found.unit),
            color=colour, marker=marker, linestyle=line, markersize=5, linewidth=1.4, capsize=3, elinewidth=1.2,
            fillstyle=fill, label=curve.label,
        )  # fmt: skip
    level_axis(axes, ticks(found.sweep), at, axis(found.sweep))
    metric = found.experiment.measured
    axes.set_ylabel(f"{metric.title}{f' in {found.unit.name}' if found.unit.name else ''}")
    if scale is Scale.LOGARITHMIC:
        axes.set_yscale("log")
    elif scale is Scale.FROM_ZERO:
        axes.set_ylim(bottom=0, top=None if any(values_of(found.curves)) else 1)
    else:  # from zero, differences of values in the upper half would be invisible
        axes.set_ylabel(f"{axes.get_ylabel()}\n(axis does not begin at 0)")


def _head(found: FigureCurves, label: str) -> str:
    return f"{label} ({found.unit.name})" if found.unit.name else label


def _numbers(found: FigureCurves, at: int) -> list[str]:
    """Return each curve's mean at a level, with its interval."""
    points = [next((point for point in curve.points if point.at == at), None) for curve in found.curves]
    return [_point_text(found, point) if point else "" for point in points]


def _point_text(found: FigureCurves, point: CurvePoint) -> str:
    text, interval = found.unit.text(point.side.mean), point.interval
    return f"{text} [{found.unit.text(interval.low)}, {found.unit.text(interval.high)}]" if interval else text
