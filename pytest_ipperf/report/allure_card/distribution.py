"""Plot the distribution of an arm's single times with its percentiles, and the course of the runs over the session.

matplotlib is imported only where something is drawn.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.scaling import time_unit
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.percentile import percentile
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.allure_card.small_png import small_png
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.plot_style import PAPER, settings, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE_IN, _DPI = (8.2, 2.6), 100
_POINTS = 200
_MARKED = (0.5, 0.95, 0.99)
_DRAWN = 0.995
"""Share of the times at which the axis ends, so that single outliers do not compress the others."""
_WIDE = 12

Times = Mapping[Arm, Sequence[float]]
"""By arm: times of connections in seconds, infinite for a failed one; or when each run began."""


def distribution_plot(record: Record, times: Times, began: Times) -> bytes | None:
    """Return the plot as PNG; None if neither times nor the beginnings of all runs are known.

    `times` are those of all connections of each arm. `began` has for each of an arm's values the seconds since 1970.
    """
    known = {side.arm: sorted(times[side.arm]) for side in record.sides if len(times.get(side.arm, ()))}
    course = {
        side.arm: list(zip(began[side.arm], side.values, strict=True))
        for side in record.sides
        if len(began.get(side.arm, ())) == len(side.values) and all(began[side.arm])
    }
    drawn = [bool(known) and all(math.isfinite(each[0]) for each in known.values()), bool(course)]
    if not any(drawn):
        return None
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see the module's charter
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    with settings(record.cell, **{"font.size": 9}):
        figure = mpl_figure.Figure(figsize=_SIZE_IN, layout="constrained", facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = iter(figure.subplots(1, sum(drawn), squeeze=False)[0])
        if drawn[0]:
            _draw_shares(next(axes), known)
        if drawn[1]:
            _draw_course(next(axes), record, course)
        written = io.BytesIO()
        figure.savefig(written, format="png", dpi=_DPI, metadata={"Software": None})
    return small_png(written.getvalue())


def _draw_shares(axes: Axes, known: Mapping[Arm, Sequence[float]]) -> None:
    """Draw the share of connections that were done within a time, with marks at the percentiles."""
    ends = [_finite(percentile(times, share), times) for times in known.values() for share in (0.005, _DRAWN)]
    low, high = min(ends), max(ends)
    unit = time_unit(high)
    for arm, times in known.items():
        colour, marker, line = style_of(arm)
        count = len(times)
        steps = range(count) if count <= _POINTS else [round(at * (count - 1) / (_POINTS - 1)) for at in range(_POINTS)]
        found = [(times[at] / unit.size, 100 * (at + 1) / count) for at in steps if math.isfinite(times[at])]
        x, y = [each for each, _ in found], [each for _, each in found]
        axes.plot(x, y, color=colour, linestyle=line, linewidth=1.3, drawstyle="steps-post")
        marks = [(percentile(times, share), share) for share in _MARKED]
        done = [(value / unit.size, 100 * share) for value, share in marks if math.isfinite(value)]
        texts = ", ".join(unit.text(value) if math.isfinite(value) else "never" for value, _ in marks)
        label = f"{arm.title}: {texts}"
        axes.plot([at for at, _ in done], [at for _, at in done], color=colour, marker=marker, linestyle="none",
                  markersize=5, label=label)  # fmt: skip
    if low > 0 and high > _WIDE * low:
        _logarithmic(axes)
    if low < high:
        axes.set_xlim(low / unit.size * 0.95, high / unit.size * 1.05)
    axes.set_ylim(0, 102)
    axes.set_xlabel(f"time of a connection, {unit.name}")
    axes.set_ylabel("done, % of all")
    axes.set_title("distribution of all connections", fontsize=9)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="lower right", title="p50, p95, p99", title_fontsize=8)


def _logarithmic(axes: Axes) -> None:
    """Give the axis of times a logarithmic scale with plain numbers at 1, 2 and 5."""
    from matplotlib import ticker  # noqa: PLC0415 - see the module's charter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())


def _finite(value: float, times: Sequence[float]) -> float:
    """Return the value, or the slowest completed time if the share was never done."""
    return value if math.isfinite(value) else max(each for each in times if math.isfinite(each))


def _draw_course(axes: Axes, record: Record, course: Mapping[Arm, Sequence[tuple[float, float]]]) -> None:
    """Draw the value of each run over the minutes since the first one."""
    metric = METRICS[record.metric].metric
    first = min(at for runs in course.values() for at, _ in runs)
    unit = unit_of(metric, [value for runs in course.values() for _, value in runs if math.isfinite(value)])
    for arm, runs in course.items():
        colour, marker, line = style_of(arm)
        ordered = sorted(runs)
        x = [(at - first) / 60 for at, _ in ordered]
        axes.plot(x, [value / unit.size for _, value in ordered], color=colour, marker=marker, linestyle=line,
                  markersize=3.5, linewidth=0.6, alpha=0.85)  # fmt: skip
    axes.set_xlabel("minutes since the first run")
    axes.set_ylabel(unit.name or metric.title)
    axes.set_title("runs in the course of the measurement", fontsize=9)
    axes.grid(visible=True, axis="y", alpha=0.3)
