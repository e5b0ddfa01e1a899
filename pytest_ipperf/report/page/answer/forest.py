"""The forest plot: a line for each protocol, metric and arm, at its worst level, on a common axis."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.answer.names import Names, place_of, subject_of
from pytest_ipperf.report.answer.sentence import worse_by
from pytest_ipperf.report.answer.values import allowed_text, arrow_text, typical_mark
from pytest_ipperf.report.answer.words import unbroken
from pytest_ipperf.report.flow.tables import answered
from pytest_ipperf.report.page.figures.axis import Axis
from pytest_ipperf.report.page.figures.strip import axis_labels, common_axis, strip, strip_key
from pytest_ipperf.report.page.html.badges import badge, verdict_class
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, anchor, boxed, caption, element, joined
from pytest_ipperf.report.tables.cell_results import VERDICTS, change_text
from pytest_ipperf.report.tables.component_rows import deciding_part, verdict_text

_SHARES = ("p50", "p95")
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
    tails = any(map(_tails, (record for record, _ in shown)))
    heads = ("", "worst cell", f"change, {unit}", "", "p50 and p95" if tails else "", "verdict")
    cells = [element("th", text, scope="col") if text else element("td", NOTHING) for text in heads]
    head = element("tr", *cells)
    scale = element(
        "tr", *[element("td", NOTHING)] * 2, element("td", axis_labels(axis, unit)), *[element("td", NOTHING)] * 3,
        class_="scales",
    )  # fmt: skip
    title = _title(unit, len(worst) - len(shown))
    table = element("table", caption(title), element("thead", head), element("tbody", *rows, scale), class_="forest")
    return joined((strip_key(deciding_part(record) for record, _ in shown), boxed(f"Changes in {unit}", table)))


def _title(unit: str, left: int) -> str:
    more = f"; {left} more lines are in the map" if left > 0 else ""
    # Who divides the values beside a change would find another one.
    ratio = (
        "; a change in % is the typical ratio of runs of one block, and not that of the means" if unit == "%" else ""
    )
    return f"Worst cell of each protocol and arm{ratio}{more}"


def _row(record: Record, group: Sequence[Record], names: Names, axis: Axis) -> Markup:
    part = deciding_part(record)
    level = names.at(record)
    of = f"worst of {len(group)}" if len(group) > 1 else "the only one"
    where = f"{record.test.arm.title}{names.place(record)}"
    change = change_text(part) or "no change is known"
    allowed = f"allowed {text}" if (text := allowed_text(part)) else ""
    mark = f" {typical_mark(record)}".rstrip()
    figures = unbroken(f"{change}{'; ' * bool(allowed)}{allowed}")
    verdict = badge(verdict_text(record), verdict_class(record.verdict))
    return element(
        "tr",
        element("th", element("b", subject_of(part)), element("small", where), scope="row"),
        element("td", level or of, element("small", of if level else "")),
        element(
            "td",
            strip(part, axis),
            element("span", axis_labels(axis, part.change_unit), class_="own-scale"),
            element("span", unbroken(change), class_="unseen"),
            class_="drawn-in",
        ),
        element(
            "td",
            element("b", arrow_text(record)),
            mark,
            element("small", figures),
        ),
        element("td", *_tails(record)),
        element(
            "td",
            element("a", verdict, href=f"#{anchor(record.key)}"),
        ),
    )


def _rank(record: Record) -> tuple[int, float]:
    return VERDICTS.index(record.verdict), -worse_by(record)


def _tails(record: Record) -> list[Markup]:
    """Return the median and the 95th percentile of both arms, each in one unit; empty for flows."""
    if not any(side.quantiles for side in record.sides):
        return []
    return [element("span", element("small", name), f" {_quantile(record, name)}", class_="line") for name in _SHARES]


def _quantile(record: Record, name: str) -> str:
    found = [side.quantiles.get(name) if side.quantiles else None for side in record.sides]
    texts = ["failed" if each is None else f"{1000 * each:.3g}" for each in found]
    return unbroken(f"{' → '.join(texts)} ms")
