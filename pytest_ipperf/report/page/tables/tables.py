"""Write the terminal's tables as HTML tables, with verdicts as badges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.page.html.badges import badge, is_verdict, verdict_class
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, anchor, boxed, caption, element, joined
from pytest_ipperf.report.studies.ministat import comparison_reports
from pytest_ipperf.report.tables.component_rows import TITLES
from pytest_ipperf.report.tables.intervals import is_interval_title
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.paragraphs import paragraphs
from pytest_ipperf.report.tables.verdict_rows import TYPICAL
from pytest_ipperf.report.workload_kinds import by_kind

_INDENT = "  "
_MOST = 60
"""Number of tables on a page; the session's files have all."""
_VERDICT = "verdict"
_ANSWER = {"change", "change of the means", "margin", _VERDICT, *TITLES.values()}
"""Titles of the most important rows."""
_ASIDE = (
    "completed",
    "failed",
    "p50",
    "dns",
    "connect",
    "first byte",
    "goodput",
    "client",
    "path",
    "most",
    "opened",
    "study's",
)
"""Beginnings of the titles of minor rows, in a group whose heading has no figures."""


def tables(records: Sequence[Record], files: str) -> Markup:
    """Return all tables with their notes; `files` says where the tables are that the page leaves out."""
    made, note_lines = _made(records)
    shown = [_html(each) for each in made[:_MOST]]
    if len(made) > _MOST:
        shown.append(element("p", f"{len(made) - _MOST} more tables are left out; {files}", class_="soft"))
    lines = [element("li", text) for text in paragraphs(note_lines)]
    return joined(
        (
            element("div", *shown, class_="tables"),
            element("details", element("summary", "Notes on these figures"), element("ul", *lines)),
            _ministat(records),
        )
    )


def count_of(records: Sequence[Record]) -> int:
    """Return the number of tables."""
    return len(_made(records)[0])


def _ministat(records: Sequence[Record]) -> Markup:
    """Return what ministat says of each comparison, folded; of many, only of the first."""
    reports = [*comparison_reports(records)]
    if not reports:
        return NOTHING
    shown = [element("pre", "\n".join(report), tabindex="0") for report in reports[:_MOST]]
    about = (
        "The same runs as FreeBSD's ministat reports them. It takes runs for independent of each other, which those of "
        "one epoch are not; the verdicts do not use it."
    )
    if len(reports) > _MOST:
        about += f" {len(reports) - _MOST} more are left out: pytest-ipperf show SESSION --ministat prints all."
    return element("details", element("summary", "ministat"), element("p", about, class_="about"), *shown)


def _made(records: Sequence[Record]) -> tuple[list[Table], list[str]]:
    made, lines = list[Table](), list[str]()
    for reports, own in by_kind(records):
        tables, notes = reports.tables(own)
        made += tables
        lines += ["", *notes]
    return made, lines


def _html(made: Table) -> Markup:
    head, *rows = made.rows
    columns = max(len(cells) for _, cells in made.rows)
    heads = [element("th", text, scope="col") for text in _filled(head[1], columns)]
    bodies = [_body(group, columns, made.answers) for group in _groups(rows)]
    return boxed(
        made.title,
        element(
            "table",
            caption(made.title),
            element("thead", element("tr", element("td", NOTHING), *heads)),
            *bodies,
        ),
        *(element("p", line, class_="about") for line in made.about),
    )


def _groups(rows: Iterable[Row]) -> list[list[Row]]:
    """Group the rows by arm."""
    found: list[list[Row]] = []
    for row in rows:
        if not row[0].startswith(_INDENT) or not found:
            found.append([])
        found[-1].append(row)
    return found


def _body(rows: Sequence[Row], columns: int, answers: Mapping[str, Mapping[int, Record]]) -> Markup:
    own, headed = answers.get(rows[0][0], {}), not rows[0][1]
    made = []
    for name, cells in rows:
        title = name.strip()
        if not cells:
            made.append(element("tr", element("th", title, scope="rowgroup", colspan=str(columns + 1)), class_="arm"))
            continue
        shown = [_cell(title, text, own.get(at)) for at, text in enumerate(_filled(cells, columns))]
        kind = "minor" if name.startswith(_INDENT) else "arm"
        main = title in _ANSWER or is_interval_title(title) or title.startswith(TYPICAL)
        weight = " answer" if main or (headed and not title.startswith(_ASIDE)) else ""
        made.append(element("tr", element("th", title, scope="row"), *shown, class_=f"{kind}{weight}"))
    return element("tbody", *made)


def _cell(name: str, text: str, record: Record | None) -> Markup:
    verdict = text.partition(": ")[0]
    if name != _VERDICT or not is_verdict(verdict):
        return element("td", text)
    shown = badge(text, verdict_class(verdict))
    return element("td", element("a", shown, href=f"#{anchor(record.key)}") if record else shown)


def _filled(cells: Sequence[str], columns: int) -> list[str]:
    return [*cells, *[""] * (columns - len(cells))]
