"""Trend: what earlier sessions found of a cell, night by night, with the marks of lasting changes."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.records.history_entry import HistoryEntry
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.sweep_plot import DOTTED, FONT_PT, grid
from pytest_ipperf.report.page.words import at_levels, subject
from pytest_ipperf.report.plot_style import INK, OTHER, PAPER, STYLES, Style, settings, svg_of
from pytest_ipperf.report.tables.findings import margin_change
from pytest_ipperf.report.terminal.trend import BEGINS, UNSOUND, Step, steps

_SIZE_IN = (5.8, 2.6)
_CONFIDENCE = 0.95
_FEWEST = 2
"""Nights without which there is no course."""
_MOST = 120
"""Of a longer course the last ones are drawn."""
_TODAY = "this session"
_OTHER_HOSTS = "measured on other hosts or settings than today"


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One dot: the change in the unit that people read, with its interval where there is one; `other` hosts or not.

    Later nights are not compared with what is not `sound`.
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
class Course:
    """A cell's nights with today's, which is the last; `marks` are the numbers of those where a change begins.

    So many nights before them are `left` out.
    """

    record: Record
    nights: tuple[Night, ...]
    marks: tuple[int, ...]
    left: int


def course(record: Record, past: Sequence[HistoryEntry]) -> Course | None:
    """The course of a cell; None where there is none worth drawing."""
    metric = METRICS[record.metric].metric
    told = [each for each in past if each.change is not None and math.isfinite(each.change)]
    earlier = told[-_MOST:]
    if len(earlier) < _FEWEST:
        return None
    now = record.past(_TODAY, earlier[-1].began_at)
    shown = [now] if now.change is not None and math.isfinite(now.change) else []
    found = steps([*earlier, *shown], metric)
    nights = [_night(step, record.fingerprint) for step in found[: len(earlier)]] + [_today(record, now)] * len(shown)
    marks = tuple(at for at, step in enumerate(found) if step.begins)
    return Course(record=record, nights=tuple(nights), marks=marks, left=len(told) - len(earlier))


def trend_figure(found: Course, among: Sequence[Record], number: int) -> Figure:
    """The figure of a course; its level is told as far as those among which it is differ."""
    record, nights = found.record, found.nights
    arm = Arm.parse(record.test.arm)
    colour, marker, _ = STYLES.get(str(arm), OTHER)
    keys: dict[str, Style] = {f"{arm.title} against {Arm.parse(record.reference.arm).title}": (colour, marker, "-")}
    return Figure(
        name=f"trend{number}",
        title=f"{subject(record)}{at_levels([record], among)}, {arm.title}: change over {len(nights)} sessions",
        svg=_svg(found, colour, marker),
        keys=keys,
        caption=_caption(found),
        head=("session", "began (UTC)", f"change ({record.change_unit})", "95 % interval", "remarks"),
        rows=[_row(night, at in found.marks) for at, night in enumerate(nights)],
    )


def _caption(found: Course) -> str:
    nights, others = found.nights, sum(night.other for night in found.nights)
    dots = "change of each session"
    dots += " with its 95 % interval" if any(night.low < night.high for night in nights) else ""
    dots += "; dotted: the margin" if margin_change(found.record) is not None else ""
    parts = [f"{found.record.cell}: {dots}; the last dot, with a ring, is this session."]
    if found.marks:
        parts.append(f"Upright dashes: {BEGINS} (session {', '.join(nights[at].session for at in found.marks)}).")
    if others:
        parts.append(f"Hollow: {_OTHER_HOSTS} ({others} of {len(nights)}).")
    if unsound := sum(not night.sound for night in nights):
        parts.append(f"Later nights are {UNSOUND} {unsound} of them, which the table names.")
    if found.left:
        parts.append(f"{found.left} sessions before them are not drawn.")
    return " ".join(parts)


def _night(step: Step, fingerprint: str) -> Night:
    past, change = step.past, step.change or 0.0
    low, high = step.interval or (change, change)
    other = bool(fingerprint and past.fingerprint and past.fingerprint != fingerprint)
    return Night(
        at=past.began_at, session=past.session, change=change, low=low, high=high, other=other, sound=past.sound
    )


def _today(record: Record, past: HistoryEntry) -> Night:
    change = record.estimate or 0.0
    low, high = (record.low, record.high) if record.judges else (None, None)
    return Night(
        at=past.began_at,
        session=past.session,
        change=change,
        low=change if low is None else low,
        high=change if high is None else high,
        other=False,
        today=True,
    )


def _svg(found: Course, colour: str, marker: str) -> str:
    from matplotlib import figure as mpl_figure  # noqa: PLC0415 - see drawing
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    nights = found.nights
    with settings(f"trend {found.record.cell}", **{"font.size": FONT_PT}):
        figure = mpl_figure.Figure(figsize=_SIZE_IN, facecolor=PAPER)
        FigureCanvasAgg(figure)
        figure.subplots_adjust(left=0.105, right=0.985, top=0.97, bottom=0.175)
        axes = figure.subplots()
        x = range(len(nights))
        bars = [[max(0.0, night.change - night.low) for night in nights]]
        bars.append([max(0.0, night.high - night.change) for night in nights])
        y = [night.change for night in nights]
        axes.errorbar(x, y, yerr=bars, color=colour, linestyle="-", linewidth=0.7, elinewidth=0.9, capsize=0)
        for hollow in (False, True):
            own = [at for at in x if nights[at].other == hollow]
            axes.plot(
                own, [y[at] for at in own], marker=marker, linestyle="none", markersize=4, color=colour,
                markerfacecolor=PAPER if hollow else colour,
            )  # fmt: skip
        if nights[-1].today:
            axes.plot(x[-1:], y[-1:], marker="o", linestyle="none", markersize=9, markerfacecolor="none", color=INK)
        for at in found.marks:
            axes.axvline(at - 0.5, color=INK, linestyle="--", linewidth=1)
        axes.axhline(0, color=INK, linewidth=0.8)
        if (limit := margin_change(found.record)) is not None:
            axes.axhline(limit, color=INK, linestyle=DOTTED, linewidth=1.4)
        step = max(1, -(-len(nights) // 6))
        shown = list(range(len(nights) - 1, -1, -step))[::-1]
        axes.set_xticks(shown, ["today" if nights[at].today else f"{_date(nights[at].at):%d %b}" for at in shown])
        axes.set_xlabel("session, the oldest first")
        axes.set_ylabel(f"change, {found.record.change_unit}")
        grid(axes, "y")
        return svg_of(figure)


def _date(at: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(at, dt.UTC)


def _row(night: Night, changed: bool) -> tuple[str, ...]:  # noqa: FBT001 - a column of the table
    remarks = [BEGINS] * changed + [_OTHER_HOSTS] * night.other + [UNSOUND] * (not night.sound)
    interval = f"[{percent_text(night.low)}, {percent_text(night.high)}]" if night.low < night.high else ""
    began = "" if night.today else f"{_date(night.at):%Y-%m-%d %H:%M}"
    return night.session, began, percent_text(night.change), interval, "; ".join(remarks)
