"""Plot the time course of a session: how far the runs lay from the means of their cells, by the time of the day."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.percentile import percentile
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.page.figures.arm_styles import ArmStyle, key, styles_of
from pytest_ipperf.report.page.figures.axis import linear, plain
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.plot import Plot, Point

_DOTS = 700
"""Number of runs above which they are drawn as bands over intervals of time."""
_BINS = 48
_FEWEST = 8
"""Fewest runs that make a course."""


def session_course(summary: SessionSummary, records: Sequence[Record]) -> Figure | None:
    """Return the figure of all runs of a session; None if their times are not known."""
    seen: set[tuple[str, str, str]] = set()
    runs: dict[bool, list[Point]] = {False: [], True: []}
    for record in records:
        for side in record.sides:
            place = (summary.measured_as(record), str(side.arm), record.metric)
            if place not in seen:
                seen.add(place)
                runs[side.arm == record.reference.arm] += _runs(summary, record, side.arm == record.reference.arm)
    every = sorted(point for points in runs.values() for point in points)
    if len(every) < _FEWEST:
        return None
    # A resumed session has runs from before it began.
    first = every[0][0]
    runs = {side: [(x - first, y) for x, y in points] for side, points in runs.items()}
    every = [(x - first, y) for x, y in every]
    ends = [percentile(sorted(y for _, y in every), share) for share in (0.005, 0.995)]
    last = every[-1][0]
    size, unit = (60.0, "h") if last > 180 else (1.0, "min")
    y = linear(ends, include=[0.0])
    plot = Plot(
        plain(0.0, last / size * 1.01),
        y,
        x_title=f"time since the first run, {unit}",
        y_title="from the cell's own mean, %",
    )
    plot.across(0.0, "zero")
    chosen = min(records, key=lambda record: record.twin)
    styles = styles_of((chosen.reference.arm, chosen.test.arm))
    shown = {}
    for is_reference in (True, False):
        points = runs[is_reference]
        arm = chosen.reference.arm if is_reference else chosen.test.arm
        own = sorted((x / size, value) for x, value in points)
        if own:
            shown[arm] = styles[arm]
            _draw(plot, own, styles[arm], inside=y.holds)
    beyond = sum(not y.holds(value) for _, value in every)
    outside = f" {beyond} runs lie beyond the axis." if beyond else ""
    several = len({record.test.arm for record in records}) > 1
    others = f" All arms but the reference are drawn as {chosen.test.arm.title}." if several else ""
    how = (
        "a dot is a run"
        if len(every) <= _DOTS
        else f"line and band: median and central 80 % of {_BINS} intervals of time"
    )
    return Figure(
        title="Every run by the time of its measurement",
        plots=[
            plot.html(f"{len(every)} runs over {last:.0f} minutes, as differences from the mean of their cell and arm")
        ],
        key=key(shown),
        caption=f"Each of the {len(every)} runs against the mean of its cell and arm; {how}. A slope, a step or a "
        f"cluster shows what happened to the testbed meanwhile; the arms of a block share it, so it cancels in the "
        f"changes.{others}{outside}",
    )


def _runs(summary: SessionSummary, record: Record, is_reference: bool) -> Iterator[Point]:  # noqa: FBT001 - which side
    """Yield the minutes at which runs began, and their differences from the mean in percent."""
    side = record.reference if is_reference else record.test
    times = summary.run_times.get((summary.measured_as(record), side.arm), ())
    values = list(zip(times, side.values, strict=False)) if len(times) >= len(side.values) else []
    scale = METRICS[record.metric].metric.scale
    for began_at, value in values:
        if math.isfinite(value) and math.isfinite(side.mean) and (side.mean or scale != "ratio"):
            change = 100 * (value / side.mean - 1) if scale == "ratio" else 100 * (value - side.mean)
            yield began_at / 60, change


def _draw(plot: Plot, points: Sequence[Point], style: ArmStyle, *, inside: Callable[[float], bool]) -> None:
    if len(points) <= _DOTS // 2:
        plot.dots([point for point in points if inside(point[1])], style, "small")
        return
    low, high = points[0][0], points[-1][0]
    bins: dict[int, list[Point]] = {}
    for x, y in points:
        bins.setdefault(min(_BINS - 1, int(_BINS * (x - low) / (high - low or 1.0))), []).append((x, y))
    middle, lower, upper = [], [], []
    for at in sorted(bins):
        x = statistics.fmean(x for x, _ in bins[at])
        values = sorted(y for _, y in bins[at])
        middle.append((x, statistics.median(values)))
        lower.append((x, percentile(values, 0.1)))
        upper.append((x, percentile(values, 0.9)))
    plot.area(lower, upper, f"spread {style.name}")
    plot.line(middle, style.name)
