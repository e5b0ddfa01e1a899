"""List every cell in a row of its own, with its interval as a picture, its sentence and an anchor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.nightly.report import CellReport, NightReport
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.flow.tables import change_of_means
from pytest_ipperf.report.page.badges import badge, decision_class, verdict_class
from pytest_ipperf.report.page.markup import NOTHING, Markup, anchor, boxed, caption, element
from pytest_ipperf.report.page.words import subject
from pytest_ipperf.report.tables.cell_results import change_text, margin_change
from pytest_ipperf.report.tables.component_rows import component_lines, deciding_part, verdict_text
from pytest_ipperf.report.tables.intervals import deciding_interval, levels_text, wider_interval
from pytest_ipperf.report.tables.paragraphs import capital
from pytest_ipperf.report.tables.verdict_rows import TYPICAL, means_disagree, typical_text

_BETTER, _WORSE = -1.5, 2.5
"""Limits of an interval's picture, in margins; an interval beyond them ends in an arrow."""
_WIDE, _HIGH = 160.0, 16.0


@dataclass(frozen=True, slots=True)
class _CellEntry:
    """Content of a row; `record` is None for a cell that was not measured; `data` names the measurement."""

    key: HistoryKey
    record: Record | None
    found: Markup
    sentence: str
    data: str = ""


def cells(records: Sequence[Record], night: NightReport | None) -> Markup:
    """Return the list of all cells: in a night its decisions, with the measurement that each is based on."""
    entries = [
        _CellEntry(
            cell.key, cell.record, badge(cell.decision.value, decision_class(cell.decision)), cell.sentence, _data(cell)
        )
        for cell in (night.cells if night else ())
    ]
    ruled = {each.key for each in entries}
    entries += [
        _CellEntry(record.key, record, badge(verdict_text(record), verdict_class(record.verdict)), record.sentence)
        for record in records
        if record.key not in ruled
    ]
    judged = night is not None or any(record.judges for record in records)
    bodies, seen = list[Markup](), set[HistoryKey]()
    for each in entries:
        name = {} if each.key in seen else {"id": anchor(each.key)}  # once per cell
        bodies.append(element("tbody", *_rows(each, judged=judged), role="rowgroup", **name))
        seen.add(each.key)
    heads = ("cell", "verdict", "change", "against the margin")[: None if judged else -1]
    levels = levels_text([each.record for each in entries if each.record])
    decides = f" and the interval that decides ({levels}); thin: 95 %" if levels else ""
    title = f"Every cell, with its change against the reference{decides}"
    named = (element("th", each, scope="col", role="columnheader") for each in heads)
    head = element("thead", element("tr", *named, role="row"), role="rowgroup")
    return boxed("All cells", element("table", caption(title), head, *bodies, class_="cells", role="table"))


def _rows(entry: _CellEntry, *, judged: bool) -> Iterator[Markup]:
    """Yield the row of the figures, then that of the sentence.

    The roles are explicit because the style sheet displays rows as grids on a narrow screen, which removes them.
    """
    about, change, margin, picture = entry.key.metric.replace("_", " "), "", "", ""
    beside: list[str] = []
    if entry.record:
        about = f"{subject(entry.record)}, {entry.record.test.arm.title}{entry.data}"
        change = change_text(entry.record) or change_of_means(entry.record)
        margin, picture = _margin(entry.record), _picture(deciding_part(entry.record))
        beside = [*_typical(entry.record), *component_lines(entry.record)]
    name = element("th", element("code", entry.key.cell), element("small", about), scope="row", role="rowheader")
    lines = (element("small", line) for line in (margin, *beside))
    figures = (name, _cell(entry.found), _cell(change, *lines))
    if not judged:
        yield element("tr", *figures, role="row")
        return
    yield element("tr", *figures, _cell(picture), role="row")
    sentence = element("p", capital(entry.sentence)) if entry.sentence else NOTHING
    yield element("tr", _cell(sentence, colspan="4"), class_="sentence", role="row")


def _cell(*parts: str, **attributes: str) -> Markup:
    return element("td", *parts, role="cell", **attributes)


def _data(cell: CellReport) -> str:
    """Return the measurement of the night from which the figures are."""
    return ", fresh epochs" if cell.fresh else ", screening"


def _margin(record: Record) -> str:
    if record.margin_fraction is None or not record.judges:
        return ""
    return f"margin {percent_text(100 * record.margin_fraction, sign=False)} {record.change_unit}"


def _typical(record: Record) -> list[str]:
    """Return the typical values to which the change belongs, if the means say something else."""
    if not means_disagree(record):
        return []
    unit = unit_of(METRICS[record.metric].metric, [record.test.mean, record.reference.mean])
    return [f"{TYPICAL} {typical_text(record, unit.text)} {unit.name}".rstrip()]


def _picture(record: Record) -> str:
    """Return a picture of the interval in units of the margin, with lines at 0 and 1; worse is to the right."""
    unit, found, wider = margin_change(record), deciding_interval(record), wider_interval(record)
    if not unit or record.estimate is None or found is None:
        return ""
    low, middle, high = sorted(each / unit for each in (found.low, record.estimate, found.high))
    ends = f"M{_x(low)} 8H{_x(high)}"
    thin = "".join(f"M{_x(each.low / unit)} 8H{_x(each.high / unit)}" for each in (wider,) if each)
    thin += f"M{_x(low) + 4} 3L{_x(low)} 8L{_x(low) + 4} 13" if low < _BETTER else ""
    thin += f"M{_x(high) - 4} 3L{_x(high)} 8L{_x(high) - 4} 13" if high > _WORSE else ""
    return Markup(
        f'<svg class="strip" viewBox="0 0 {_WIDE:g} {_HIGH:g}" aria-hidden="true">'
        f'<path class="zero" d="M{_x(0)} 1V15"/><path class="limit" d="M{_x(1)} 1V15"/>'
        f'<path class="thin" d="{thin}"/><path class="span" d="{ends}"/>'
        f'<circle cx="{_x(middle)}" cy="8" r="2.6"/></svg>'
    )


def _x(margins: float) -> float:
    inside = min(max(margins, _BETTER), _WORSE)
    return round(2 + (_WIDE - 4) * (inside - _BETTER) / (_WORSE - _BETTER), 1)
