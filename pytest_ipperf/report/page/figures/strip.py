"""Draw intervals of changes against their margins, a line each, on an axis that several lines share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.page.figures.axis import Axis, plain
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, element
from pytest_ipperf.report.tables.cell_results import margin_change
from pytest_ipperf.report.tables.intervals import deciding_interval, levels_text, wider_interval

Ends = tuple[float, float]
"""Lower and upper end of an interval."""
_WIDEST = 3.0
"""Width of the axis on either side of 0, in the largest margin; intervals beyond it end in an arrow."""
_REACH = 10.0
"""Size of a change, in the largest margin, up to which the axis is wide enough for it, whatever its interval."""
_LEAST = 5.0
"""Least width of the axis on either side of 0, in percent or percentage points."""


def common_axis(records: Iterable[Record]) -> Axis:
    """Return the axis for the changes of records of one unit; it holds 0 and all margins."""
    changes, ends, margins = list[float](), list[float](), list[float]()
    for record in records:
        limit, found = margin_change(record), deciding_interval(record)
        margins += [limit] if limit is not None else []
        changes += [record.estimate] if record.estimate is not None else []
        ends += [found.low, found.high] if found else []
    return axis_over(changes, ends, margins)


def axis_over(changes: Iterable[float], ends: Iterable[float], margins: Iterable[float]) -> Axis:
    """Return the axis of 0, all `margins`, and the `changes` and `ends` of intervals that are not far beyond."""
    limits, known = [0.0, *margins], [each for each in changes if _finite(each)]
    largest = max(map(abs, limits))
    farthest = min(1.1 * max(map(abs, known), default=0.0), _REACH * largest)
    widest = max(_LEAST, _WIDEST * largest, farthest) if largest else math.inf
    places = (0.0, *known, *ends, *(1.3 * margin for margin in limits))
    finite = [min(max(end, -widest), widest) for end in places if _finite(end)]
    low, high = min(finite), max(finite)
    least = _LEAST if any(limits) else max(abs(low), abs(high), 0.1)
    low, high = min(low, -least / 2), max(high, least / 2)
    space = 0.06 * (high - low)
    return plain(low - space, high + space, 5)


def strip(record: Record, axis: Axis, *, label: str = "") -> Markup:
    """Return the picture of a record's change; see `interval_strip`."""
    if record.estimate is None:
        return NOTHING
    thick, thin = (
        (found.low, found.high) if found else None for found in (deciding_interval(record), wider_interval(record))
    )
    return interval_strip(record.estimate, axis, limit=margin_change(record), thick=thick, thin=thin, label=label)


def interval_strip(
    estimate: float, axis: Axis, *, limit: float | None, thick: Ends | None, thin: Ends | None, label: str = ""
) -> Markup:
    """Return the picture of a change: the margin's band, the interval that decides as a thick bar, the estimate.

    `limit` is the margin as a change, negative if less is worse; `thick` and `thin` are the ends of the interval that
    decides and of a wider one. Empty unless the estimate is finite. The picture is hidden from screen readers unless it
    has a `label`.
    """
    if not _finite(estimate):
        return NOTHING
    parts = []
    if limit:
        parts.append(_band(axis, 0.0, limit, "allowed"))
        parts.append(_upright(axis, limit, "limit"))
    parts.append(_upright(axis, 0.0, "zero"))
    for ends, name in ((thin, "thin"), (thick, "thick")):
        if ends:
            parts.append(_bar(axis, *ends, name))
    if thick:
        parts += [_arrow(axis, thick[0], "<")] if thick[0] < axis.low else []
        parts += [_arrow(axis, thick[1], ">")] if thick[1] > axis.high else []
    if axis.holds(estimate):
        parts.append(f'<circle cx="{_at(axis, estimate)}" cy="50%" r="4"/>')
    named = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    return Markup(f'<svg class="strip" {named}>{"".join(parts)}</svg>')


def strip_key(records: Iterable[Record]) -> Markup:
    """Return the key of the pictures of these records: the elements that occur in them, each with its meaning."""
    judged = [record for record in records if record.estimate is not None]
    levels = levels_text(judged)
    wider = any(map(wider_interval, judged))
    return interval_key(
        f"the {levels} interval that decides" if levels else "",
        "the 95 % interval, where that is wider" if wider else "",
        "the margin, which is allowed" if any(map(margin_change, judged)) else "",
    )


def interval_key(thick: str, thin: str, margin: str, *, dot: str = "the change") -> Markup:
    """Return the key of pictures of changes; an element without a meaning does not occur in them."""
    items = [("dot", dot, '<circle cx="50%" cy="50%" r="4"/>')]
    bar = '<line class="{}" x1="0" x2="100%" y1="50%" y2="50%"/>'
    items += [("thick bar", thick, bar.format("thick"))] if thick else []
    items += [("thin line", thin, bar.format("thin"))] if thin else []
    band = (
        '<rect class="allowed" width="100%" height="100%"/><line class="limit" x1="100%" x2="100%" y1="0" y2="100%"/>'
    )
    items += [("shaded", margin, band)] if margin else []
    items.append(("upright line", "no change", '<line class="zero" x1="50%" x2="50%" y1="0" y2="100%"/>'))
    shown = (
        element("li", Markup(f'<svg class="strip sample" aria-hidden="true">{drawn}</svg>'), f"{name}: {meaning}")
        for name, meaning, drawn in items
    )
    return element("ul", *shown, class_="keys strip-key")


def axis_labels(axis: Axis, unit: str) -> Markup:
    """Return the labels of a shared axis, as wide as its lines."""
    texts = "".join(
        f'<text x="{axis.at(value):.1f}%" y="12" text-anchor="middle">{_signed(text)}{f" {unit}" * (value == 0)}</text>'
        for value, text in axis.ticks
        if 3 < axis.at(value) < 97
    )
    return Markup(f'<svg class="scale" aria-hidden="true">{texts}</svg>')


def _signed(text: str) -> str:
    return text if text.startswith("-") or text in ("0", "-0") else f"+{text}"


def _band(axis: Axis, one: float, other: float, name: str) -> str:
    low, high = sorted((axis.at(one), axis.at(other)))
    return f'<rect class="{name}" x="{low:.1f}%" width="{high - low:.1f}%" y="0" height="100%"/>'


def _upright(axis: Axis, value: float, name: str) -> str:
    return f'<line class="{name}" x1="{_at(axis, value)}" x2="{_at(axis, value)}" y1="0" y2="100%"/>'


def _bar(axis: Axis, low: float, high: float, name: str) -> str:
    return f'<line class="{name}" x1="{_at(axis, low)}" x2="{_at(axis, high)}" y1="50%" y2="50%"/>'


def _arrow(axis: Axis, value: float, text: str) -> str:
    anchor = "start" if value < axis.low else "end"
    x = "0" if anchor == "start" else "100%"
    return f'<text class="beyond" x="{x}" y="50%" dy=".32em" text-anchor="{anchor}">{escape(text)}</text>'


def _at(axis: Axis, value: float) -> str:
    return f"{min(max(axis.at(value), 0), 100):.1f}%"


def _finite(value: float) -> bool:
    return math.isfinite(value)
