"""Plot the distribution of single samples (ECDF); failures never complete, so curves with failures end below 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.scaling import Unit, number, time_unit
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.sweep_plot import FONT_PT, grid, plain_log
from pytest_ipperf.report.page.words import level_text
from pytest_ipperf.report.plot_style import PAPER, settings, style_of, svg_of
from pytest_ipperf.report.tables.arm_rows import arm_rank

_SIZE_IN = (5.8, 2.9)
_POINTS = 160
"""Number of samples above which this many quantiles are drawn: closer ones would share a pixel."""
_WIDE = 12
"""Ratio of the axis' end to its beginning from which it is logarithmic."""
_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
_DRAWN = (0.005, 0.995)
"""Shares at which the axis begins and ends, so that single outliers do not compress the others."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Sorted times of completed samples, and the number `attempted`."""

    seconds: tuple[float, ...]
    attempted: int

    def quantile(self, share: float) -> float:
        """Return the smallest time within which a share was done; infinite if it never was."""
        at = max(0, math.ceil(share * self.attempted) - 1)
        return self.seconds[at] if at < len(self.seconds) else math.inf

    def within(self, share: float) -> float:
        """Return the quantile, or the slowest completed time if the share was never done."""
        return min(self.quantile(share), self.seconds[-1])

    def curve(self, unit: Unit) -> tuple[list[float], list[float]]:
        """Return times in `unit` and the percentages done by then: all of few samples, else quantiles."""
        count = len(self.seconds)
        steps = range(count) if count <= _POINTS else [round(at * (count - 1) / (_POINTS - 1)) for at in range(_POINTS)]
        x = [self.seconds[at] / unit.size for at in steps]
        y = [100 * (at + 1) / self.attempted for at in steps]
        return ([x[0], *x], [0.0, *y]) if x else ([], [])


def spread_figure(
    record: Record, samples: Mapping[tuple[str, Arm], Sequence[float]], among: Sequence[Record], number_: int
) -> Figure | None:
    """Return the figure of a record's workload with all arms; None if no samples are kept."""
    workload = record.workload
    arms = sorted((arm for name, arm in samples if name == workload), key=arm_rank)
    found = {arm: _sorted(samples[workload, arm]) for arm in arms}
    found = {arm: each for arm, each in found.items() if each.attempted}
    if not any(each.seconds for each in found.values()):
        return None
    what = PROTOCOLS[record.protocol].samples_title
    unit = time_unit(max(each.within(_DRAWN[1]) for each in found.values() if each.seconds))
    level = level_text(record, among)
    failed = any(len(each.seconds) < each.attempted for each in found.values())
    ends = " A curve that ends below 100 % belongs to an arm with failures, which never completed." if failed else ""
    wide = ", which is logarithmic" if _is_wide(found) else ""
    return Figure(
        name=f"spread{number_}",
        title=f"{PROTOCOLS[record.protocol].title}{f', {level}' if level else ''}: distribution of {what}",
        svg=_svg(found, workload, f"{what.removesuffix('s')}, {unit.name}", unit),
        keys={arm.title: style_of(arm) for arm in found},
        caption=f"Share of all connections or probes that were done within a time, all runs of {workload} together. "
        f"The fastest and slowest {100 * _DRAWN[0]:g} % may lie beyond the axis{wide}.{ends}",
        head=(
            "arm",
            "number",
            "done",
            *(f"{100 * share:g} % ({unit.name})" for share in _SHARES),
            f"slowest ({unit.name})",
        ),
        rows=[_row(arm, each, unit) for arm, each in found.items()],
    )


def _sorted(samples: Sequence[float]) -> Sorted:
    return Sorted(tuple(sorted(float(each) for each in samples if math.isfinite(each))), len(samples))


def _row(arm: Arm, found: Sorted, unit: Unit) -> tuple[str, ...]:
    done = f"{number(100 * len(found.seconds) / found.attempted, 4)} %"
    quantiles = (found.quantile(share) for share in (*_SHARES, 1.0))
    times = (unit.text(each) if math.isfinite(each) else "never" for each in quantiles)
    return arm.title, f"{found.attempted}", done, *times


def _ends(found: Mapping[Arm, Sorted]) -> tuple[float, float]:
    """Return the ends of the axis, in seconds."""
    completed = [each for each in found.values() if each.seconds]
    return min(each.within(_DRAWN[0]) for each in completed), max(each.within(_DRAWN[1]) for each in completed)


def _is_wide(found: Mapping[Arm, Sorted]) -> bool:
    """Return whether the axis is logarithmic."""
    low, high = _ends(found)
    return low > 0 and _WIDE * low < high


def _svg(found: Mapping[Arm, Sorted], workload: str, label: str, unit: Unit) -> str:
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see plot_style
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    with settings(f"spread {workload}", **{"font.size": FONT_PT}):
        figure = mpl_figure.Figure(figsize=_SIZE_IN, facecolor=PAPER)
        FigureCanvasAgg(figure)
        figure.subplots_adjust(left=0.105, right=0.985, top=0.975, bottom=0.155)
        axes = figure.subplots()
        for at, (arm, each) in enumerate(found.items()):
            colour, marker, dashes = style_of(arm)
            x, y = each.curve(unit)
            every = max(1, len(x) // 6)
            axes.plot(
                x, y, color=colour, linestyle=dashes, marker=marker, markersize=4, markevery=(at * every // 4, every),
                linewidth=1.3, drawstyle="steps-post",
            )  # fmt: skip
        low, high = _ends(found)
        if _is_wide(found):
            axes.set_xscale("log")
            plain_log(axes.xaxis)
        if 0 < low < high:
            axes.set_xlim(low / unit.size * 0.97, high / unit.size * 1.03)
        axes.set_ylim(0, 102)
        axes.set_xlabel(label)
        axes.set_ylabel("done, % of all")
        grid(axes)
        return svg_of(figure)
