"""Print the trend of a cell by session: its change, its interval, and where a lasting change begins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE, Metric
from pytest_ipperf.core.inference.effect import percent_of_log, percent_text
from pytest_ipperf.core.portable.units import quantity_text
from pytest_ipperf.core.records.comparison import interval_of
from pytest_ipperf.core.records.history_entry import HistoryEntry
from pytest_ipperf.core.stats.change_points import change_points
from pytest_ipperf.report.tables.layout import Row, aligned

_INTERVAL = "95 % interval"
_HEAD = ["began (UTC)", "reference", "change", _INTERVAL, "verdict", "remarks"]


BEGINS, UNSOUND = "a lasting change begins", "not compared with"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendStep:
    """A session of a trend. `change` and `interval` are in the displayed unit, None if unknown.

    An interval needs as many epochs as a verdict. With `begins` a new level begins at this session.
    """

    past: HistoryEntry
    change: float | None
    interval: tuple[float, float] | None
    begins: bool


def trend_steps(history: Sequence[HistoryEntry], metric: Metric) -> tuple[TrendStep, ...]:
    """Return a step for each session; change points are searched for among all finite changes."""
    known = [(at, past.change) for at, past in enumerate(history) if past.change is not None and isfinite(past.change)]
    marks = {known[at][0] for at in change_points([change for _, change in known])}
    return tuple(
        TrendStep(
            past=past,
            change=None if past.change is None else _shown(past.change, metric),
            interval=_interval(past, metric),
            begins=at in marks,
        )
        for at, past in enumerate(history)
    )


def trend_lines(history: Sequence[HistoryEntry], metric: Metric, *, most: int, width: int | None = None) -> list[str]:
    """Return the last `most` sessions of a cell as lines, the oldest first; change points are searched for among all.

    The column of intervals is left out if no session has one.
    """
    rows: list[Row] = [("session", _HEAD)]
    found = trend_steps(history, metric)
    for before, step in zip([None, *history], found, strict=False):
        remarks = [BEGINS] * step.begins + _remarks(step.past, before)
        rows.append((step.past.session, [*_figures(step, metric), "; ".join(remarks)]))
    if not any(step.interval for step in found):
        at = _HEAD.index(_INTERVAL)
        rows = [(name, [*cells[:at], *cells[at + 1 :]]) for name, cells in rows]
    key = history[-1].key
    version = f", version {key.version}" if key.version else ""
    left_out = f"; the last {most}:" if len(history) > most else ""
    return [
        f"{key}{version}: {len(history)} session{'s' * (len(history) != 1)}{left_out}",
        "",
        *aligned([rows[0], *rows[1:][-most:]], width),
    ]


def _figures(step: TrendStep, metric: Metric) -> list[str]:
    began = dt.datetime.fromtimestamp(step.past.began_at, dt.UTC)
    return [
        f"{began:%Y-%m-%d %H:%M}",
        quantity_text(step.past.reference_value, metric.unit),
        "" if step.change is None else f"{percent_text(step.change)} {UNITS_OF_CHANGE[metric.scale]}",
        f"[{', '.join(map(percent_text, step.interval))}]" if step.interval else "",
        step.past.verdict,
    ]


def _interval(past: HistoryEntry, metric: Metric) -> tuple[float, float] | None:
    found = interval_of(past)
    return (_shown(found.low, metric), _shown(found.high, metric)) if found else None


def _shown(change: float, metric: Metric) -> float:
    return percent_of_log(change) if metric.scale == "ratio" else 100 * change


def _remarks(past: HistoryEntry, before: HistoryEntry | None) -> list[str]:
    other = before and before.fingerprint and past.fingerprint and before.fingerprint != past.fingerprint
    return ["other hosts than before"] * bool(other) + [UNSOUND] * (not past.sound)
