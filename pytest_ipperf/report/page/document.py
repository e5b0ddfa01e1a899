"""The document: what a reader wants to know first, then all that it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_ipperf.core.night import Ruling
from pytest_ipperf.core.past import Key
from pytest_ipperf.core.record import Record
from pytest_ipperf.core.story import Story
from pytest_ipperf.core.units import seconds_text
from pytest_ipperf.report.flow.table import latest
from pytest_ipperf.report.network import testbed_text
from pytest_ipperf.report.page.answer import answers, counted, question, troubles
from pytest_ipperf.report.page.cells import cells
from pytest_ipperf.report.page.figure import Figure
from pytest_ipperf.report.page.levels import level_figure, level_lines
from pytest_ipperf.report.page.markup import NOTHING, Markup, bullets, capital, element, joined
from pytest_ipperf.report.page.method import environment, method
from pytest_ipperf.report.page.night import night_part
from pytest_ipperf.report.page.spread import spread_figure, workload_of
from pytest_ipperf.report.page.tables import tables
from pytest_ipperf.report.page.trend import Course, course, trend_figure
from pytest_ipperf.report.page.words import day_text, listed

_LEVELS, _SPREADS, _TRENDS = 24, 12, 12
"""Figures of each kind at most; of more cells the numbers are in the tables and files."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Whatever a record holds, a browser loads nothing and runs nothing."""
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='none' "
    "stroke='%232f6fd0' stroke-width='2' d='M1 11h4l2-7 3 9 2-5h3'/%3E%3C/svg%3E"
)
Section = tuple[str, str, Markup]
"""Its name for links, its heading, and what it holds; empty ones are left out."""


def page(story: Story) -> str:
    """The whole page."""
    sections = [each for each in _sections(story) if each[2]]
    links = [element("a", title, href=f"#{name}") for name, title, _ in sections]
    body = joined(
        (
            element("a", "To the answer", href="#answer", class_="skip"),
            element("header", *_head(story)),
            element("nav", bullets(links), aria_label="Parts of this page"),
            element("main", *(_section(*each) for each in sections)),
        ),
        "\n",
    )
    head = joined(
        (
            Markup('<meta charset="utf-8">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            Markup(f'<link rel="icon" href="{_ICON}">'),
            element("title", _title(story)),
            element("style", Markup(Path(__file__).with_name("style.css").read_text(encoding="utf-8"))),
        ),
        "\n",
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _title(story: Story) -> str:
    return f"{story.night.headline if story.night else question(story.records)} - pytest-ipperf {story.name}"


def _head(story: Story) -> Iterator[Markup]:
    yield element("p", f"pytest-ipperf, {day_text(story.began_at)}", class_="kicker")
    if story.night:
        yield night_part(story.night)
        yield element("h2", question(story.records), class_="question")
    else:
        yield element("h1", question(story.records))
    yield element("p", _where(story), class_="soft")


def _where(story: Story) -> str:
    """Testbed, design and time in a line."""
    beds = dict.fromkeys(record.testbed for record in story.records)
    told = [testbed_text([each for each in story.records if each.testbed == bed]) for bed in beds]
    designs = listed(dict.fromkeys(record.design for record in story.records)) if story.records else ""
    told += [f"design {designs}"] if designs else []
    told += [f"measured in {seconds_text(story.seconds)}"] if story.seconds is not None else []
    return capital("; ".join(told))


def _section(name: str, title: str, content: Markup) -> Markup:
    return element("section", element("h2", title), content, id=name)


def _sections(story: Story) -> Iterator[Section]:
    files = f"the files in {story.folder / 'tables'} have them all"
    told = latest(story.records)
    yield "answer", "The answer", _answer(story)
    yield "tables", "Tables", tables(story.records, files) if story.records else NOTHING
    yield "levels", "By connections and other levels", _levels(told, files)
    yield "spread", "Distributions", _spreads(story, told)
    yield "trend", "Over time", _trends(story, told)
    yield "cells", "All cells", cells(story.records, story.night) if story.records or story.night else NOTHING
    yield "method", "Method", method(story)
    yield "environment", "Environment", environment(story)


def _answer(story: Story) -> Markup:
    parts = [counted(story), element("div", *answers(story.records), class_="arms")]
    if story.troubles:
        parts += [element("h3", "Without an answer"), troubles(story.troubles)]
    return joined(parts)


def _levels(records: Sequence[Record], files: str) -> Markup:
    lines = level_lines(records)
    figures = [level_figure(line, number) for number, line in enumerate(lines[:_LEVELS])]
    return _figures(figures, len(lines) - len(figures), f"they are in the tables, and {files}")


def _spreads(story: Story, records: Sequence[Record]) -> Markup:
    by_workload = {workload_of(record): record for record in _worst_first(records)}
    kept = {workload for workload, _ in story.samples}
    chosen = [record for workload, record in by_workload.items() if workload in kept]
    shown = [record for record in records if record in chosen[:_SPREADS]]
    found = [
        spread_figure(record, story.samples, _same(record, records), number) for number, record in enumerate(shown)
    ]
    return _figures([each for each in found if each], len(chosen) - len(shown), f"the samples lie in {story.folder}")


def _trends(story: Story, records: Sequence[Record]) -> Markup:
    drawn: list[Course] = []
    by_key = {record.key: record for record in records}
    if story.night:
        by_key |= {cell.key: cell.record for cell in story.night.cells if cell.record}
    found = {key: made for key, record in by_key.items() if (made := course(record, story.courses.get(key, ())))}
    drawn = sorted(found.values(), key=lambda each: not _matters(each, story))[:_TRENDS]
    figures = [trend_figure(each, number) for number, each in enumerate(drawn)]
    return _figures(figures, len(found) - len(figures), "the records of all sessions have them")


def _matters(found: Course, story: Story) -> bool:
    """Whether a course is one that a reader wants to see: of a cell that is worse, or has changed."""
    return bool(found.marks) or found.record.verdict == "exceeds" or found.record.key in _noticed(story)


def _noticed(story: Story) -> set[Key]:
    """The cells that a night flagged or found something in."""
    cells_ = story.night.cells if story.night else ()
    return {cell.key for cell in cells_ if cell.flagged or cell.ruling is not Ruling.WITHIN}


def _worst_first(records: Iterable[Record]) -> list[Record]:
    order = {"exceeds": 0, "invalid": 1, "inconclusive": 2}
    return sorted(records, key=lambda record: order.get(record.verdict, 3))


def _same(record: Record, among: Iterable[Record]) -> list[Record]:
    """Those from which its level has to be told."""
    return [each for each in among if (each.protocol, each.metric) == (record.protocol, record.metric)]


def _figures(figures: Sequence[Figure], left: int, elsewhere: str) -> Markup:
    if not figures:
        return NOTHING
    parts = [element("div", *(each.html() for each in figures), class_="figures")]
    if left > 0:
        parts.append(element("p", f"{left} more are not drawn here; {elsewhere}.", class_="soft"))
    return joined(parts)
