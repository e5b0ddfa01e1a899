"""The history of all cells as sparklines on a common scale, and in full where a cell's level moved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.nightly.report import GateDecision
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.page.figures.trend import Trend, common_axis, sparkline, trend_figure, trend_of
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, anchor, element, joined
from pytest_ipperf.report.tables.cell_results import worst_first

_SOUGHT = 400
"""Maximum number of histories searched for change points, those of bad cells first."""
_SPARKS, _TRENDS = 64, 12
"""Maximum number of sparklines, and of figures in full."""


def trends_of(summary: SessionSummary, records: Sequence[Record]) -> dict[HistoryKey, Trend]:
    """Return the trends of the cells that have a history, those of bad cells first."""
    by_key = {record.key: record for record in records}
    if summary.night:
        ruled = [cell.record for cell in summary.night.cells if cell.record]
        by_key |= {record.key: record for record in reversed(worst_first(ruled))}
    noticed = _noticed(summary)
    keys = sorted((key for key in by_key if summary.histories.get(key)), key=lambda key: not _bad(by_key[key], noticed))
    # The search for change points is slow for very many histories.
    found = {key: trend_of(by_key[key], summary.histories[key]) for key in keys[:_SOUGHT]}
    return {key: trend for key, trend in found.items() if trend}


def history(trends: Mapping[HistoryKey, Trend], names: Names, carded: Collection[HistoryKey]) -> Markup:
    """Return the sparklines, sorted by the size of the last lasting change, and the figures of those that have one."""
    if not trends:
        return NOTHING
    found = sorted(trends.items(), key=lambda each: (not each[1].change_points, -abs(each[1].shift)))
    axis = common_axis([trend for _, trend in found])
    tiles = []
    for key, trend in found[:_SPARKS]:
        record, last = trend.record, trend.points[-1].change
        unit = record.change_unit
        moved = f"; lasting change {percent_text(trend.shift)} {unit}" if trend.change_points else ""
        name = element("b", names.cell(record))
        figures = f"{percent_text(last)} {unit}{moved}"
        link = element("a", name, sparkline(trend, axis), element("small", figures), href=f"#{anchor(key)}")
        tiles.append(element("li", link))
    shifted = [(key, trend) for key, trend in found if trend.change_points and key not in carded]
    drawn = [trend_figure(trend, names.cell(trend.record)).html() for _, trend in shifted[:_TRENDS]]
    about = (
        f"The change of each cell in its last sessions, all on one scale of {percent_text(axis.low)} to "
        f"{percent_text(axis.high)}; what lies beyond is drawn at its edge. Dot: this session; grey line: no change; "
        "dotted line: the margin; dashed upright: a lasting change begins, by a change-point test over all sessions, "
        "in which the margin has no part. The largest lasting changes come first."
    )
    left = len(found) - len(tiles)
    parts = [element("p", about, class_="soft"), element("ul", *tiles, class_="sparks")]
    parts += (
        [element("p", f"{left} more have no line here; pytest-ipperf show has them.", class_="soft")] if left else []
    )
    parts += [element("div", *drawn, class_="figures")] if drawn else []
    more = len(shifted) - len(drawn)
    parts += (
        [element("p", f"{more} more with a lasting change are not drawn in full.", class_="soft")] if more > 0 else []
    )
    return joined(parts)


def _bad(record: Record, noticed: Collection[HistoryKey]) -> bool:
    """Return whether the trend of a cell is of interest: it exceeds its margin or was noticed by a night."""
    return record.verdict == "exceeds" or record.key in noticed


def _noticed(summary: SessionSummary) -> set[HistoryKey]:
    """Return the cells that a night flagged or did not find within their margin."""
    cells_ = summary.night.cells if summary.night else ()
    return {cell.key for cell in cells_ if cell.flagged or cell.decision is not GateDecision.WITHIN}
