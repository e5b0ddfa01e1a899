"""The map: every cell as a small square with its verdict's shape and its change, which leads to the cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.nightly.report import CellReport, NightReport
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.answer.names import Names, place_of, subject_of
from pytest_ipperf.report.flow.dimensions import order
from pytest_ipperf.report.page.html.badges import decision_class, shape, verdict_class
from pytest_ipperf.report.page.html.markup import Markup, anchor, boxed, caption, element, joined
from pytest_ipperf.report.tables.arm_rows import arm_rank
from pytest_ipperf.report.tables.cell_results import change_text
from pytest_ipperf.report.tables.component_rows import verdict_text

Decided = Mapping[HistoryKey, CellReport]
_NUMBERED = 14
"""Number of columns above which squares have no figures."""
_COLUMNS = 40
"""Maximum number of columns of a table, so that no square lies beyond the page's edge."""


def cell_map(records: Sequence[Record], names: Names, night: NightReport | None) -> Markup:
    """Return the maps, one for each protocol and metric, with a row for each arm and place."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.protocol, record.metric), []).append(record)
    decided = {cell.key: cell for cell in night.cells} if night else {}
    return element("div", *(_of_metric(own, names, decided) for own in groups.values()), class_="maps")


def _of_metric(records: Sequence[Record], names: Names, decided: Decided) -> Markup:
    levels = list(dict.fromkeys(names.level(record) for record in sorted(records, key=order)))
    rows: dict[tuple[object, ...], dict[str, Record]] = {}
    for record in sorted(records, key=lambda record: (place_of(record), arm_rank(record.test.arm))):
        rows.setdefault((record.test.arm, *place_of(record)), {})[names.level(record)] = record
    title, tables = subject_of(records[0]), math.ceil(len(levels) / _COLUMNS)
    size = math.ceil(len(levels) / tables)
    parts = [levels[at : at + size] for at in range(0, len(levels), size)]
    titles = [
        title if tables == 1 else f"{title}, {part[0]} to {part[-1]} (part {number} of {tables})"
        for number, part in enumerate(parts, 1)
    ]
    made = (_table(name, part, rows.values(), names, decided) for name, part in zip(titles, parts, strict=True))
    return joined(boxed(f"Map of {name}", table) for name, table in zip(titles, made, strict=True))


def _table(
    title: str, levels: Sequence[str], rows: Iterable[Mapping[str, Record]], names: Names, decided: Decided
) -> Markup:
    """Return the map of some levels, with a row for each arm and place."""
    dense = len(levels) > _NUMBERED
    heads = [element("th", level or "all", scope="col") for level in levels]
    made = []
    for own in rows:
        first = next(iter(own.values()))
        squares = [_square(own.get(level), decided, dense=dense) for level in levels]
        made.append(element("tr", element("th", f"{first.test.arm.title}{names.place(first)}", scope="row"), *squares))
    head = element("thead", element("tr", element("th", "arm", scope="col"), *heads))
    dense_class = " dense" if dense else ""
    return element("table", caption(title), head, element("tbody", *made), class_=f"map{dense_class}")


def _square(record: Record | None, decided: Decided, *, dense: bool) -> Markup:
    if record is None:
        return element("td", "")
    cell = decided.get(record.key)
    class_ = decision_class(cell.decision) if cell else verdict_class(record.verdict)
    shown = (cell.record if cell else None) or record
    word = cell.decision.value if cell else verdict_text(record)
    change = percent_text(shown.estimate) if shown.estimate is not None else "-"
    label = f"{word}: {change_text(shown) or 'no change'}"
    inner = [shape(class_), *([] if dense else [element("span", change, aria_hidden="true")])]
    square = element(
        "a", *inner, href=f"#{anchor(record.key)}", class_=f"square {class_}", title=label, aria_label=label
    )
    return element("td", square)
