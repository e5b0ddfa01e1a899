"""Plot the trend of a cell: its change in each session, and where a lasting change begins."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.records.history_entry import HistoryEntry
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.sweep_plot import DOTTED, FONT_PT, grid
from pytest_ipperf.report.page.words import at_levels, subject
from pytest_ipperf.report.plot_style import INK, PAPER, Style, settings, style_of, svg_of
from pytest_ipperf.report.tables.cell_results import margin_change
from pytest_ipperf.report.terminal.trend import BEGINS, UNSOUND, TrendStep, trend_steps

_SIZE_IN = (5.8, 2.6)
_FEWEST = 2
"""Minimum number of earlier sessions for a trend."""
_MOST = 120
"""Maximum number of earlier sessions that are drawn, the last ones."""
_TODAY = "this session"
_OTHER_HOSTS = "measured on other hosts or settings than today"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A session of a trend: its change in percent or percentage points, and its interval if it has one.

    With `other` it was measured on other hosts; later nights are not compared with one that is not `sound`.
    """

    at: float
    session: str
    change: float
    low: float
    high: float
    other: bool
    today: bool = False
    sound: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A cell's sessions, the current one last; `change_points` are the indices at which a lasting change begins.

    `omitted` earlier sessions are not drawn.
    """

    record: Record
    points: tuple[TrendPoint, ...]
    change_points: tuple[int, ...]
    omitted: int


def trend_of(record: Record, past: Sequence[HistoryEntry]) -> Trend | None:
    """Return the trend of a cell; None if too few earlier sessions have a finite change."""
    metric = METRICS[record.metric].metric
    finite = [each for each in past if each.change is not None and math.isfinite(each.change)]
    earlier = finite[-_MOST:]
    if len(earlier) < _FEWEST:
        return None
    now = record.history_entry(_TODAY, earlier[-1].began_at)
    shown = [now] if now.change is not None and math.isfinite(now.change) else []
    found = trend_steps([*earlier, *shown], metric)
    points = [_point(step, record.fingerprint) for step in found[: len(earlier)]] + [_current_point(record, now)] * len(
        shown
    )
    changes = tuple(at for at, step in enumerate(found) if step.begins)
    return Trend(record=record, points=tuple(points), change_points=changes, omitted=len(finite) - len(earlier))


def trend_figure(found: Trend, among: Sequence[Record], number: int) -> Figure:
    """Return the figure of a trend; its level is named as far as it differs among these records."""
    record, points = found.record, found.points
    arm = record.test.arm
    colour, marker, _ = style_of(arm)
    keys: dict[str, Style] = {f"{arm.title} against {record.reference.arm.title}": (colour, marker, "-")}
    return Figure(
        name=f"trend{number}",
        title=f"{subject(record)}{at_levels([record], among)}, {arm.title}: change over {len(points)} sessions",
        svg=_svg(found, colour, marker),
        keys=keys,
        caption=_caption(found),
        head=("session", "began (UTC)", f"change ({record.change_unit})", "95 % interval", "remarks"),
        rows=[_row(point, at in found.change_points) for at, point in enumerate(points)],
    )


def _caption(found: Trend) -> str:
    points, others = found.points, sum(point.other for point in found.points)
    dots = "change of each session"
    dots += " with its 95 % interval" if any(point.low < point.high for point in points) else ""
    dots += "; dotted: the margin" if margin_change(found.record) is not None else ""
    parts = [f"{found.record.cell}: {dots}; the last dot, with a ring, is this session."]
    if found.change_points:
        parts.append(
            f"Upright dashes: {BEGINS} (session {', '.join(points[at].session for at in found.change_points)})."
        )
    if others:
        parts.append(f"Hollow: {_OTHER_HOSTS} ({others} of {len(points)}).")
    if unsound := sum(not point.sound for point in points):
        parts.append(f"Later nights are {UNSOUND} {unsound} of them, which the table names.")
    if found.omitted:
        parts.append(f"{found.omitted} sessions before them are not drawn.")
    return " ".join(parts)


def _point(step: TrendStep, fingerprint: str) -> TrendPoint:
    past, change = step.past, step.change or 0.0
    low, high = step.interval or (change, change)
    other = bool(fingerprint and past.fingerprint and past.fingerprint != fingerprint)
    return TrendPoint(
        at=past.began_at, session=past.session, change=change, low=low, high=high, other=other, sound=past.sound
    )


def _current_point(record: Record, past: HistoryEntry) -> TrendPoint:
    change = record.estimate or 0.0
    low, high = (record.low, record.high) if record.judges else (None, None)
    return TrendPoint(
        at=past.began_at,
        session=past.session,
        change=change,
        low=change if low is None else low,
        high=change if high is None else high,
        other=False,
        today=True,
    )


def _svg(found: Trend, colour: str, marker: str) -> str:
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see plot_style
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    points = found.points
    with settings(f"trend {found.record.cell}", **{"font.size": FONT_PT}):
        figure = mpl_figure.Figure(figsize=_SIZE_IN, facecolor=PAPER)
        FigureCanvasAgg(figure)
        figure.subplots_adjust(left=0.105, right=0.985, top=0.97, bottom=0.175)
        axes = figure.subplots()
        x = range(len(points))
        bars = [[max(0.0, point.change - point.low) for point in points]]
        bars.append([max(0.0, point.high - point.change) for point in points])
        y = [point.change for point in points]
        axes.errorbar(x, y, yerr=bars, color=colour, linestyle="-", linewidth=0.7, elinewidth=0.9, capsize=0)
        for hollow in (False, True):
            own = [at for at in x if points[at].other == hollow]
            axes.plot(
                own, [y[at] for at in own], marker=marker, linestyle="none", markersize=4, color=colour,
                markerfacecolor=PAPER if hollow else colour,
            )  # fmt: skip
        if points[-1].today:
            axes.plot(x[-1:], y[-1:], marker="o", linestyle="none", markersize=9, markerfacecolor="none", color=INK)
        for at in found.change_points:
            axes.axvline(at - 0.5, color=INK, linestyle="--", linewidth=1)
        axes.axhline(0, color=INK, linewidth=0.8)
        if (limit := margin_change(found.record)) is not None:
            axes.axhline(limit, color=INK, linestyle=DOTTED, linewidth=1.4)
        step = max(1, -(-len(points) // 6))
        shown = list(range(len(points) - 1, -1, -step))[::-1]
        axes.set_xticks(shown, ["today" if points[at].today else f"{_date(points[at].at):%d %b}" for at in shown])
        axes.set_xlabel("session, the oldest first")
        axes.set_ylabel(f"change, {found.record.change_unit}")
        grid(axes, "y")
        return svg_of(figure)


def _date(at: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(at, dt.UTC)


def _row(point: TrendPoint, changed: bool) -> tuple[str, ...]:  # noqa: FBT001 - a column of the table
    remarks = [BEGINS] * changed + [_OTHER_HOSTS] * point.other + [UNSOUND] * (not point.sound)
    interval = f"[{percent_text(point.low)}, {percent_text(point.high)}]" if point.low < point.high else ""
    began = "" if point.today else f"{_date(point.at):%Y-%m-%d %H:%M}"
    return point.session, began, percent_text(point.change), interval, "; ".join(remarks)
