"""The course of a cell in lines: one for each session, with its interval, and where a lasting change begins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from math import isfinite

from pytest_ipperf.core.comparison import interval_of
from pytest_ipperf.core.course import change_points
from pytest_ipperf.core.effect import percent_of_log, percent_text
from pytest_ipperf.core.metric import UNITS_OF_CHANGE, Metric
from pytest_ipperf.core.past import Past
from pytest_ipperf.core.units import quantity_text
from pytest_ipperf.report.layout import Row, aligned

_HEAD = ["began (UTC)", "reference", "change", "95 % interval", "verdict", "remarks"]


def course_lines(course: Sequence[Past], metric: Metric, *, most: int, width: int | None = None) -> list[str]:
    """The last `most` sessions of a cell, the oldest first. All of them are asked where a change begins."""
    measured = [(past.session, past.change) for past in course if past.change is not None and isfinite(past.change)]
    marks = {measured[at][0] for at in change_points([change for _, change in measured])}
    rows: list[Row] = [("session", _HEAD)]
    for before, past in zip([None, *course], course, strict=False):
        remarks = [*(["a lasting change begins"] * (past.session in marks)), *_remarks(past, before)]
        rows.append((past.session, [*_figures(past, metric), "; ".join(remarks)]))
    key = course[-1].key
    version = f", version {key.version}" if key.version else ""
    left_out = f"; the last {most}:" if len(course) > most else ""
    return [
        f"{key}{version}: {len(course)} session{'s' * (len(course) != 1)}{left_out}",
        "",
        *aligned([rows[0], *rows[1:][-most:]], width),
    ]


def _figures(past: Past, metric: Metric) -> list[str]:
    began = dt.datetime.fromtimestamp(past.began_at, dt.UTC)
    found = interval_of(past)
    unit = UNITS_OF_CHANGE[metric.scale]
    shown = None if past.change is None else _shown(past.change, metric)
    return [
        f"{began:%Y-%m-%d %H:%M}",
        quantity_text(past.reference_value, metric.unit),
        "" if shown is None else f"{percent_text(shown)} {unit}",
        f"[{', '.join(percent_text(_shown(each, metric)) for each in (found.low, found.high))}]" if found else "",
        past.verdict,
    ]


def _shown(change: float, metric: Metric) -> float:
    return percent_of_log(change) if metric.scale == "ratio" else 100 * change


def _remarks(past: Past, before: Past | None) -> list[str]:
    other = before and before.fingerprint and past.fingerprint and before.fingerprint != past.fingerprint
    return ["other hosts than before"] * bool(other) + ["not compared with"] * (not past.sound)
