"""Write the description of an Allure result as HTML: answer, plot, both arms side by side, notes.

It is embedded in Allure's page, so its styles are inline, and its colours are visible on a dark page too.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from pytest_ipperf.core.portable.scaling import time_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.tables.cell_results import UNJUDGED, verdict_of
from pytest_ipperf.report.tables.component_rows import TITLES
from pytest_ipperf.report.tables.intervals import is_interval_title
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.paragraphs import capital, paragraphs
from pytest_ipperf.report.tables.verdict_rows import TYPICAL
from pytest_ipperf.report.workload_kinds import reports_of

_LINE = "border-bottom:1px solid rgba(128,128,128,.35);"
_NAME = f"{_LINE}padding:.3em .8em .3em 0;text-align:left;font-weight:normal"
_FIGURE = f"{_LINE}padding:.3em 0 .3em .8em;text-align:right"
_CAPTION = "text-align:left;font-weight:bold;padding:.3em 0;white-space:nowrap"
_TABLE = '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:.875em">'
"""Beginning of a table, in a box that scrolls where the page is narrow."""
_OF_ANSWER = ("change", "margin", "verdict", "change of the means", *TITLES.values())
"""Rows that compare an arm with the reference."""


_VERDICT_RULE = "Verdict: "
"""Beginning of the note on how a session judges a cell."""


def description(
    record: Record, png: bytes | None = None, spread: bytes | None = None, *, answer: str = "", rule: str = ""
) -> str:
    """Return the description as HTML that loads nothing; without `png` it has no plot, without `spread` no second one.

    `spread` is the picture of `distribution_plot`.
    A night gives its own `answer` in place of the verdict, and the `rule` by which it was found.
    """
    reports = reports_of(record)
    table = reports.table(record)
    said = f"<b>{escape(capital(answer or verdict_of(record)))}.</b> {escape(_sentence(record))}".rstrip()
    parts = [f"<p>{said}</p>"]
    if png is not None:
        change = ", and the change with its interval" if record.judges and record.compared else ""
        alt = f"The runs of {'both arms' if record.compared else 'the arm'}{change}: {record.sentence}"
        parts.append(_picture(png, alt))
    if spread is not None:
        parts.append(_picture(spread, _spread_alt(record)))
    parts += _html_table(record, table) if record.compared else _limit_table(table)
    parts.append(f"<p>{escape(capital('; '.join(table.about)))}.</p>")
    notes = paragraphs(reports.notes(record))
    parts += _small([rule if rule and each.startswith(_VERDICT_RULE) else each for each in notes])
    return "\n".join(parts)


def _picture(png: bytes, alt: str) -> str:
    data = base64.b64encode(png).decode("ascii")
    return f'<p><img src="data:image/png;base64,{data}" alt="{escape(alt)}" style="max-width:100%"></p>'


def _spread_alt(record: Record) -> str:
    """Return the text of the second picture: the percentiles of each arm, if they are known."""
    known = [
        f"{side.arm.title} {name} {'never' if value is None else time_text(value)}"
        for side in record.sides
        for name, value in side.quantiles.items()
    ]
    figures = f": {', '.join(known)}" if known else ""
    return f"The distribution of all connections and the course of the runs{figures}"


def without_answer(what: str, sentence: str) -> str:
    """Return the description of a cell without an answer: its category `what`, and the reason."""
    return f"<p><b>{escape(what)}.</b> {escape(capital(sentence).rstrip('.'))}.</p>"


def _sentence(record: Record) -> str:
    """Return the record's sentence, without the verdict at its beginning."""
    text = record.sentence.removeprefix(f"{UNJUDGED}: ")
    return f"{capital(text).rstrip('.')}." if text else ""


def _html_table(record: Record, table: Table) -> Iterator[str]:
    """Yield a table with both arms side by side; the tables of several cells have them one below the other."""
    reference, test = record.reference.arm.title, record.test.arm.title
    first, second = _arm_cells(table.rows, reference), _arm_cells(table.rows, test)
    heads = "".join(
        f'<th scope="col" style="{_FIGURE}">{escape(head)}</th>' for head in (f"{reference}, reference", test)
    )
    yield _TABLE
    yield f'<caption style="{_CAPTION}">{escape(table.title.partition(", by ")[0])}</caption>'
    yield f'<tr><td style="{_NAME}"></td>{heads}</tr>'
    names = dict.fromkeys((*second, *first))
    for name in sorted(names, key=lambda name: (name != "", not _compares(name))):
        texts = (first.get(name, ""), second.get(name, ""))
        figures = "".join(f'<td style="{_FIGURE}">{_strong(text, name)}</td>' for text in texts)
        yield f'<tr><th scope="row" style="{_NAME}">{escape(name or "mean of the runs")}</th>{figures}</tr>'
    yield "</table></div>"


def _limit_table(table: Table) -> Iterator[str]:
    """Yield the table of an arm alone, with a row for each limit."""
    yield _TABLE
    for number, (name, cells) in enumerate(table.rows):
        kind = "td" if number else "th"
        figures = "".join(f'<{kind} style="{_FIGURE}">{_strong(text, name)}</{kind}>' for text in cells)
        yield f'<tr><th scope="row" style="{_NAME}">{escape(name.strip())}</th>{figures}</tr>'
    yield "</table></div>"


def _arm_cells(rows: Sequence[Row], arm: str) -> dict[str, str]:
    """Return an arm's cells of a table with one column by the names of their rows; its own row has no name."""
    found: dict[str, str] = {}
    inside = False
    for name, cells in rows[1:]:
        if not name.startswith("  "):
            inside = name == arm
        if inside and cells:
            found["" if name == arm else name.strip()] = cells[0]
    return found


def _compares(name: str) -> bool:
    """Return whether a row compares the arm with the reference."""
    return name in _OF_ANSWER or is_interval_title(name) or name.startswith(TYPICAL)


def _strong(text: str, name: str) -> str:
    return f"<b>{escape(text)}</b>" if text and name in ("", "verdict") else escape(text)


def _small(sentences: Iterable[str]) -> Iterator[str]:
    yield '<ul style="font-size:.85em;opacity:.8">'
    yield from (f"<li>{escape(each)}</li>" for each in sentences)
    yield "</ul>"
