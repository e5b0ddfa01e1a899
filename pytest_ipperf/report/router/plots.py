"""Plots: the study's six figures (Figs 4 to 9) of our own runs, as SVG and PNG.

matplotlib is imported where it is needed, so that no session loads it which has nothing to draw.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_ipperf.report.network import testbed_text
from pytest_ipperf.report.router.experiments import Plot
from pytest_ipperf.report.router.series import CONFIDENCE, Curves, Dot, curves
from pytest_ipperf.report.router.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PAPER = "#111111", "#ffffff"
"""Of all that is no curve; told apart, so that a page can replace them."""
_STYLES = {
    "ipv4": ("#2f6fd0", "o", "-"),
    "ipv6": ("#c2560c", "s", "--"),
    "ipv6-isatap": ("#1b8a5a", "^", "-."),
    "ipv6-tunnel": ("#8b4fc0", "D", ":"),
}
"""By arm colour, marker and line; each alone tells them apart, so that they can be read in grey."""
_OTHER = ("#6b6b6b", "x", "-")
_SIZE_IN, _DPI = (7.2, 4.3), 150
_WIDE = 8
"""Sizes whose largest is so many times the smallest are spread by their logarithm."""
_CROWD = 8
"""More levels than that have their names aslant, so that none hides another."""
_LINE = 118
_ASIDE = 0.005
"""So far the outermost arms' dots stand beside their level, of the axis: it is one of numbers that a reader takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A figure of the study, drawn. `curves` are what it shows; `bare` has no title, which a page has beside it."""

    plot: Plot
    curves: Curves
    svg: str
    bare: str
    png: bytes


def draw(summary: Summary) -> list[Drawn]:
    """All figures of which two levels at least were measured. Raises ImportError where matplotlib is missing."""
    return [_drawn(each, summary) for each in curves(summary)]


def caption(found: Curves, summary: Summary) -> str:
    """What the dots and bars are."""
    held = f"; {found.line.held}" if found.line.held else ""
    bars = f"bars: {100 * CONFIDENCE:.0f} % t intervals of the run values" if not found.bare else "without intervals"
    return (
        f"Mean of {found.runs} runs, {bars}; {testbed_text(summary.records)}, design {summary.records[0].design}{held}"
    )


def _drawn(found: Curves, summary: Summary) -> Drawn:
    import matplotlib as mpl  # noqa: PLC0415 - see the module's charter
    from matplotlib import figure as mpl_figure  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    settings: Any = {
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": f"figure-{found.plot.number}",  # the same runs give the same file
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
        "font.family": "DejaVu Sans",  # which comes with it
        "axes.titlesize": 12,
    }
    with mpl.rc_context(settings):
        figure = mpl_figure.Figure(figsize=_SIZE_IN, layout="constrained", facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        _fill(axes, found)
        figure.legend(loc="outside lower center", ncols=len(found.dots), frameon=False, fontsize=9)
        figure.suptitle(f"{found.plot.title} (paper 001, Fig. {found.plot.number}, again)", fontsize=12)
        axes.set_title(textwrap.fill(caption(found, summary), _LINE), fontsize=7.5)
        raster = io.BytesIO()
        figure.savefig(raster, format="png", dpi=_DPI, metadata={"Software": None})
        svg = _svg(figure)
        figure.suptitle("")
        axes.set_title("")
        return Drawn(plot=found.plot, curves=found, svg=svg, bare=_svg(figure), png=raster.getvalue())


def _svg(figure: Figure) -> str:
    """As text, without the date and the program that made it."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return written.getvalue()


def _fill(axes: Axes, found: Curves) -> None:
    places = _places(found.line.values, sizes=found.line.dimension.unit == "bytes")
    for (arm, dots), shift in zip(found.dots.items(), _shifts(places, len(found.dots)), strict=True):
        colour, marker, line = _STYLES.get(str(arm), _OTHER)
        axes.errorbar(
            [places[dot.at] + shift for dot in dots],
            [dot.mean / found.unit.size for dot in dots],
            yerr=_bars(dots, found.unit.size),
            color=colour, marker=marker, linestyle=line, markersize=5, linewidth=1.4, capsize=3, elinewidth=1.2,
            label=arm.title,
        )  # fmt: skip
    crowded = len(places) > _CROWD
    axes.set_xticks(places, _ticks(found), rotation=45 if crowded else 0)
    axes.set_xlabel(_axis(found))
    metric = found.experiment.measured
    axes.set_ylabel(f"{metric.title}{f' in {found.unit.name}' if found.unit.name else ''}")
    _from_zero(axes, found)
    axes.grid(visible=True, alpha=0.3)


def _shifts(places: Sequence[float], arms: int) -> list[float]:
    """How far each arm's dots stand beside their levels, so that of equal ones every bar can still be seen."""
    most = _ASIDE * (max(places) - min(places))
    return [most * (2 * number / (arms - 1) - 1) if arms > 1 else 0.0 for number in range(arms)]


def _bars(dots: Sequence[Dot], size: float) -> list[list[float]]:
    """How far the intervals reach below and above the means; none of a single run."""
    below = [(dot.mean - dot.interval.low) / size if dot.interval else 0.0 for dot in dots]
    above = [(dot.interval.high - dot.mean) / size if dot.interval else 0.0 for dot in dots]
    return [below, above]


def _places(values: Sequence[int | float | str], *, sizes: bool) -> list[float]:
    """Where levels stand: numbers as they are, `sizes` by their logarithm if they spread far; words behind them."""
    numbers = [float(value) for value in values if not isinstance(value, str)]
    spread = sizes and len(numbers) > 1 and max(numbers) >= _WIDE * min(numbers)
    places = [math.log2(value) if spread else value for value in numbers]
    step = (places[-1] - places[0]) / (len(places) - 1) if len(places) > 1 else 1.0
    last = places[-1] if places else 0.0
    return places + [last + step * number for number in range(1, len(values) - len(numbers) + 1)]


def _ticks(found: Curves) -> list[str]:
    if found.line.dimension.unit != "bit/s":
        return found.line.texts
    return [value if isinstance(value, str) else f"{value / 1e6:g}" for value in found.line.values]


def _axis(found: Curves) -> str:
    unit = {"bytes": " in bytes (1k = 1024)", "bit/s": " in Mbit/s of payload"}.get(found.line.dimension.unit, "")
    return f"{found.line.dimension.title}{unit}"


def _from_zero(axes: Axes, found: Curves) -> None:
    """The axis begins at zero unless all values lie in the upper half, where their differences could not be seen."""
    means = [dot.mean for dots in found.dots.values() for dot in dots]
    if min(means) < max(means) / 2 or max(means) == 0:
        axes.set_ylim(bottom=0, top=None if max(means) else 1)
    else:
        axes.set_ylabel(f"{axes.get_ylabel()}\n(axis does not begin at 0)")
