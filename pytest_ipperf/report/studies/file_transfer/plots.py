"""Plot of the file-transfer study (Fig. 4): throughput over time, for each size of the file, as SVG and PNG.

matplotlib is imported only where something is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.units import bytes_text, seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.records.transfer_course import TransferCourse
from pytest_ipperf.report.plot_style import PAPER, settings, style_of, svg_of
from pytest_ipperf.report.studies.file_transfer.tables import sides_of
from pytest_ipperf.report.tables.network_notes import testbed_text

_SIZE_IN, _DPI = (7.2, 3.6), 150
_MEGA = 1e6
_FEWEST = 3
"""Fewest seconds, or minutes, that make a course."""
_DOTTED = 60
"""Most points that are drawn with dots."""
_HOUR_S, _MINUTE_S = 3600.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CoursePlot:
    """A plot: its name in files and its title; `bare` is the SVG without the title. `rows` are its figures as text."""

    name: str
    title: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    svg: str
    bare: str
    png: bytes


@dataclass(frozen=True, slots=True)
class _Line:
    """Points of an arm: times, rates in Mbit/s."""

    side: tuple[str, tuple[str, str, str]]
    at: list[float]
    rates: list[float]


def draw(records: Sequence[Record]) -> list[CoursePlot]:
    """Return for each size of the file the seconds of the first run and the minutes of all; of one group's records."""
    found = []
    for size in sorted({record.payload_bytes for record in records}):
        own = [record for record in records if record.payload_bytes == size]
        courses = {arm: sides[size].course for arm, sides in sides_of(own).items() if size in sides}
        known = {arm: course for arm, course in courses.items() if course}
        seconds = [_Line((arm.title, style_of(arm)), *_of_seconds(course)) for arm, course in known.items()]
        minutes = [_Line((arm.title, style_of(arm)), *_of_minutes(course)) for arm, course in known.items()]
        text, where = bytes_text(size), testbed_text(own)
        of = f"goodput of files of {text}, design {own[0].design}; {where}"
        if min(len(line.at) for line in seconds) >= _FEWEST:
            title = f"Throughput second by second, files of {text} (paper 003, Fig. 4, again)"
            found.append(_drawn(f"figure-4-{text}", title, f"First run of each arm, {of}", "s", seconds))
        if min(len(line.at) for line in minutes) >= _FEWEST:
            title = f"Throughput over the time of the measurement, files of {text}"
            each = f"A dot is the mean of {seconds_text(min(own[0].run_s, _MINUTE_S))}; {of}"
            found.append(_drawn(f"soak-{text}", title, each, *_scaled(minutes)))
    return found


def _of_seconds(course: TransferCourse) -> tuple[list[float], list[float]]:
    return [row[0] for row in course.seconds], [row[1] / _MEGA for row in course.seconds]


def _of_minutes(course: TransferCourse) -> tuple[list[float], list[float]]:
    return [row[0] for row in course.minutes], [row[1] / _MEGA for row in course.minutes]


def _scaled(lines: Sequence[_Line]) -> tuple[str, list[_Line]]:
    """Return the unit of the times and the lines with times in it."""
    last = max(line.at[-1] for line in lines)
    size, unit = (_HOUR_S, "h") if last >= 2 * _HOUR_S else (_MINUTE_S, "min") if last >= 2 * _MINUTE_S else (1.0, "s")
    return unit, [_Line(line.side, [at / size for at in line.at], line.rates) for line in lines]


def _drawn(name: str, title: str, caption: str, unit: str, lines: Sequence[_Line]) -> CoursePlot:
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see above
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    with settings(name):
        figure = mpl_figure.Figure(figsize=_SIZE_IN, layout="constrained", facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for line in lines:
            label, (colour, marker, dash) = line.side
            shown = marker if len(line.at) <= _DOTTED else ""
            axes.plot(
                line.at,
                line.rates,
                color=colour,
                linestyle=dash,
                linewidth=1.1,
                label=label,
                marker=shown,
                markersize=3,
            )
        axes.set_xlabel(f"time in {unit}, since the arm's first run began")
        axes.set_ylabel("goodput in Mbit/s")
        # In the upper half, differences would be invisible.
        rates = [rate for line in lines for rate in line.rates]
        if min(rates) > max(rates) / 2:
            axes.set_ylabel("goodput in Mbit/s\n(axis does not begin at 0)")
        else:
            axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        figure.legend(loc="outside lower center", ncols=len(lines), frameon=False, fontsize=9)
        figure.suptitle(title, fontsize=11)
        axes.set_title(caption, fontsize=7)
        raster = io.BytesIO()
        figure.savefig(raster, format="png", dpi=_DPI, metadata={"Software": None})
        svg = svg_of(figure)
        figure.suptitle("")
        axes.set_title("")
        bare = svg_of(figure)
    return CoursePlot(
        name=name,
        title=title,
        caption=f"{caption}.",
        head=(f"time in {unit}", *(f"{line.side[0]} (Mbit/s)" for line in lines)),
        rows=tuple(_rows(lines)),
        svg=svg,
        bare=bare,
        png=raster.getvalue(),
    )


def _rows(lines: Sequence[_Line]) -> list[tuple[str, ...]]:
    """Return the figures by their place in the arms' order: the arms are not measured at the same instants."""
    longest = max(lines, key=lambda line: len(line.at))
    return [
        (f"{at:.4g}", *(f"{line.rates[place]:.2f}" if place < len(line.rates) else "" for line in lines))
        for place, at in enumerate(longest.at)
    ]
