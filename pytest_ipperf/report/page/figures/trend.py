"""Plot the trend of a cell: its change in each session, where a lasting change begins, and as a sparkline."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.records.history_entry import HistoryEntry
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.page.figures.arm_styles import ArmStyle, key, styles_of
from pytest_ipperf.report.page.figures.axis import Axis, linear, thinned
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.plot import Plot
from pytest_ipperf.report.page.html.markup import Markup
from pytest_ipperf.report.tables.cell_results import margin_change
from pytest_ipperf.report.terminal.trend import BEGINS, UNSOUND, TrendStep, trend_steps

_FEWEST = 2
"""Minimum number of earlier sessions for a trend."""
_MOST = 120
"""Maximum number of earlier sessions that are drawn, the last ones."""
_EDGE = 4.0
"""Distance from the edge of a sparkline, in percent of its height, within which a line is drawn whole."""
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

    @property
    def shift(self) -> float:
        """Size of the last lasting change: mean change since then less that before it; 0 without one."""
        if not self.change_points:
            return 0.0
        last = self.change_points[-1]
        before = self.change_points[-2] if len(self.change_points) > 1 else 0
        since = [point.change for point in self.points[last:]]
        return statistics.fmean(since) - statistics.fmean(point.change for point in self.points[before:last])

    @property
    def history(self) -> str:
        """Sentence on the last lasting change, or on the span of the earlier sessions without a finding."""
        count = len(self.points)
        if not self.change_points:
            return self._without_shift()
        at = self.change_points[-1]
        point, unit = self.points[at], self.record.change_unit
        when = "this session" if point.today else f"session {point.session} ({_date(point.at):%d %B %Y})"
        return (
            f"a lasting change of {percent_text(self.shift)} {unit} begins at {when}, by a change-point test over "
            f"{count} sessions, in which the margin has no part"
        )

    def _without_shift(self) -> str:
        """Return whether this session lies outside of what the earlier ones had.

        That no lasting change was found is not said: few sessions cannot show one, and a cell can be beyond its margin
        without any.
        """
        *earlier, last = self.points
        known = [point.change for point in (earlier if last.today else self.points)]
        low, high = min(known), max(known)
        span = f"between {percent_text(low)} and {percent_text(high)} {self.record.change_unit}"
        if not last.today:
            return f"the {len(self.points)} sessions lay {span}"
        lies = "among" if low <= last.change <= high else "outside"
        now = f"this session ({percent_text(last.change)} {self.record.change_unit})"
        return f"{now} lies {lies} the {len(earlier)} before it, {span}"


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


def trend_figure(found: Trend, title: str) -> Figure:
    """Return the figure of a trend, of the cell with this name."""
    record, points = found.record, found.points
    style = _style(record)
    return Figure(
        title=f"{title}: change over {len(points)} sessions",
        plots=[_plot(found, style).html(f"Change of {record.cell} by session; {found.history}.")],
        key=key({record.test.arm: style}),
        caption=_caption(found),
        head=("session", "began (UTC)", f"change ({record.change_unit})", "95 % interval", "remarks"),
        rows=[_row(point, at in found.change_points) for at, point in enumerate(points)],
    )


def sparkline(found: Trend, axis: Axis) -> Markup:
    """Return the trend as a line of a few pixels, on an axis of changes that all sparklines share."""
    points, last = found.points, max(1, len(found.points) - 1)
    path = "L".join(f"{round(1000 * at / last)} {1000 - _height(axis, each.change)}" for at, each in enumerate(points))
    marks = "".join(
        f'<path class="ln moved" d="M{round(1000 * (at - 0.5) / last)} 0v1000"/>' for at in found.change_points
    )
    zero, name = 1000 - _height(axis, 0.0), _style(found.record).name
    limit = margin_change(found.record)
    margin = "" if limit is None else f'<path class="ln margin" d="M0 {1000 - _height(axis, limit)}h1000"/>'
    end = f"{100 - _height(axis, points[-1].change) / 10:.1f}%"
    return Markup(
        f'<svg class="spark {name}" aria-hidden="true"><svg viewBox="0 0 1000 1000" preserveAspectRatio="none" '
        f'width="100%" height="100%"><path class="ln zero" d="M0 {zero}h1000"/>{margin}{marks}'
        f'<path class="ln plain" d="M{path}"/></svg><circle cx="100%" cy="{end}" r="3"/></svg>'
    )


def _height(axis: Axis, change: float) -> int:
    """Return the place of a change in thousandths; one beyond the axis lies at its edge, by half a line inside."""
    return round(10 * min(max(axis.at(change), _EDGE), 100 - _EDGE))


def common_axis(trends: Sequence[Trend]) -> Axis:
    """Return the axis of sparklines: all changes but the largest 2 %, of up to 50 all."""
    sizes = sorted(abs(point.change) for trend in trends for point in trend.points)
    most = max(sizes[math.ceil(0.98 * (len(sizes) - 1))], 1.0)
    return Axis(low=-1.1 * most, high=1.1 * most)


def _style(record: Record) -> ArmStyle:
    return styles_of([record.test.arm, record.reference.arm])[record.test.arm]


def _caption(found: Trend) -> str:
    points, others = found.points, sum(point.other for point in found.points)
    dots = "change of each session"
    dots += " with its 95 % interval" if any(point.low < point.high for point in points) else ""
    dots += "; dashed: the margin" if margin_change(found.record) is not None else ""
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


def _plot(found: Trend, style: ArmStyle) -> Plot:
    points, limit = found.points, margin_change(found.record)
    values = [end for point in points for end in (point.low, point.change, point.high)]
    step = max(1, -(-len(points) // 4))
    shown = list(range(len(points) - 1, -1, -step))[::-1]
    labels = tuple((float(at), "today" if points[at].today else f"{_date(points[at].at):%d %b}") for at in shown)
    plot = Plot(
        thinned(Axis(low=-0.5, high=len(points) - 0.5, ticks=labels)),
        linear(values, include=[0.0, *([limit] if limit is not None else [])]),
        x_title="session, the oldest first",
        y_title=f"change, {found.record.change_unit}",
    )
    plot.across(0.0, "zero")
    if limit is not None:
        plot.across(limit, "limit")
    for at, point in enumerate(points):
        if point.low < point.high:
            plot.upright(at, point.low, point.high, f"reach {style.name}")
    for at in found.change_points:
        plot.mark(at - 0.5, "moved", "new level")
    plot.line([(at, point.change) for at, point in enumerate(points)], f"faint {style.name}")
    for other in (True, False):
        own = [(float(at), point.change) for at, point in enumerate(points) if point.other == other]
        plot.dots(own, style, "hollow" if other else "")
    if points[-1].today:
        plot.ring((len(points) - 1, points[-1].change))
    return plot


def _date(at: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(at, dt.UTC)


def _row(point: TrendPoint, changed: bool) -> tuple[str, ...]:  # noqa: FBT001 - a column of the table
    remarks = [BEGINS] * changed + [_OTHER_HOSTS] * point.other + [UNSOUND] * (not point.sound)
    interval = f"[{percent_text(point.low)}, {percent_text(point.high)}]" if point.low < point.high else ""
    began = "" if point.today else f"{_date(point.at):%Y-%m-%d %H:%M}"
    return point.session, began, percent_text(point.change), interval, "; ".join(remarks)
