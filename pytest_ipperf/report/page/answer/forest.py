"""The forest plot: a line for each protocol, metric and arm, at its worst level, on a common axis."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.answer.names import Names, place_of, subject_of
from pytest_ipperf.report.answer.sentence import worse_by
from pytest_ipperf.report.answer.values import allowed_text, arrow_text, typical_mark
from pytest_ipperf.report.answer.words import spoken, unbroken
from pytest_ipperf.report.flow.tables import answered
from pytest_ipperf.report.page.figures.axis import Axis
from pytest_ipperf.report.page.figures.strip import axis_labels, common_axis, strip
from pytest_ipperf.report.page.html.badges import badge, verdict_class
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, anchor, boxed, caption, element, joined
from pytest_ipperf.report.tables.cell_results import VERDICTS, change_text
from pytest_ipperf.report.tables.component_rows import deciding_part, verdict_text
from pytest_ipperf.report.tables.intervals import levels_text

_MOST = 40
"""Number of lines; the map and the list have all cells."""


def forest(records: Sequence[Record], names: Names) -> Markup:
    """Return the forest plots, one for each unit of changes; empty without comparisons."""
    compared = [record for record in answered(records) if record.compared]
    by_unit: dict[str, list[Record]] = {}
    for record in compared:
        by_unit.setdefault(deciding_part(record).change_unit, []).append(record)
    return joined(_of_unit(unit, own, names) for unit, own in by_unit.items())


def _of_unit(unit: str, records: Sequence[Record], names: Names) -> Markup:
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((record.protocol, record.metric, record.test.arm, *place_of(record)), []).append(record)
    worst = [(min(group, key=_rank), group) for group in groups.values()]
    worst.sort(key=lambda each: (each[0].twin, VERDICTS.index(each[0].verdict)))
    shown = worst[:_MOST]
    axis = common_axis(deciding_part(record) for record, _ in shown)
    rows = [_row(record, group, names, axis) for record, group in shown]
    tails = any(map(_tail, (record for record, _ in shown)))
    heads = ("", "worst cell", f"change, {unit}", "", "p95" if tails else "", "verdict")
    cells = [element("th", text, scope="col") if text else element("td", NOTHING) for text in heads]
    head = element("tr", *cells)
    scale = element(
        "tr", *[element("td", NOTHING)] * 2, element("td", axis_labels(axis, unit)), *[element("td", NOTHING)] * 3
    )
    title = _title(records, unit, len(worst) - len(shown))
    table = element("table", caption(title), element("thead", head), element("tbody", *rows, scale), class_="forest")
    return boxed(f"Changes in {unit}", table)


def _title(records: Sequence[Record], unit: str, left: int) -> str:
    levels = levels_text(map(deciding_part, records))
    drawn = f"thick bar: the {levels} interval that decides; " if levels else ""
    band = "shaded: the margin" if levels else "dot: the change"
    more = f"; {left} more lines are in the map" if left > 0 else ""
    # Who divides the values beside a change would find another one.
    typical = "; a change in % is the typical ratio of runs of one block, and not that of the means"
    ratio = typical if unit == "%" else ""
    return f"Worst cell of each protocol and arm; {drawn}{band}{ratio}{more}"


def _row(record: Record, group: Sequence[Record], names: Names, axis: Axis) -> Markup:
    part = deciding_part(record)
    level = names.at(record)
    of = f"worst of {len(group)}" if len(group) > 1 else "the only one"
    where = f"{spoken(record.test.arm)}{names.place(record)}"
    change = change_text(part) or "no change is known"
    allowed = f"allowed {text}" if (text := allowed_text(part)) else ""
    mark = f" {typical_mark(record)}".rstrip()
    figures = unbroken(f"{change}{'; ' * bool(allowed)}{allowed}")
    verdict = badge(verdict_text(record), verdict_class(record.verdict))
    return element(
        "tr",
        element("th", element("b", subject_of(part)), element("small", where), scope="row"),
        element("td", level or of, element("small", of if level else "")),
        element("td", strip(part, axis), element("span", unbroken(change), class_="unseen"), class_="drawn-in"),
        element(
            "td",
            element("b", arrow_text(record)),
            mark,
            element("small", figures),
        ),
        element("td", _tail(record)),
        element(
            "td",
            element("a", verdict, href=f"#{anchor(record.key)}"),
        ),
    )


def _rank(record: Record) -> tuple[int, float]:
    return VERDICTS.index(record.verdict), -worse_by(record)


def _tail(record: Record) -> str:
    """Return the 95th percentiles of both arms, in one unit."""
    found = [side.quantiles.get("p95") if side.quantiles else None for side in record.sides]
    if not any(side.quantiles for side in record.sides):
        return ""
    texts = ["failed" if each is None else f"{1000 * each:.3g}" for each in found]
    return f"{' → '.join(texts)} ms"
