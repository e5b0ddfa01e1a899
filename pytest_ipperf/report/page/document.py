"""Lay out the page: the answer first, then the data behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence

from pytest_ipperf.core.nightly.aa_check import aa_check_of
from pytest_ipperf.core.nightly.report import GateDecision
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.tables import latest, placed
from pytest_ipperf.report.page.answer import answers, counted, question, troubles
from pytest_ipperf.report.page.badges import BROKEN, shape
from pytest_ipperf.report.page.cells import cells
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.spread import spread_figure
from pytest_ipperf.report.page.figures.sweeps import level_figure, level_sweeps
from pytest_ipperf.report.page.figures.trend import trend_figure, trend_of
from pytest_ipperf.report.page.markup import NOTHING, Markup, bullets, element, html_file, joined
from pytest_ipperf.report.page.method import environment, method
from pytest_ipperf.report.page.night import aa_check_line, night_part
from pytest_ipperf.report.page.table_v import grade_rules
from pytest_ipperf.report.page.tables import tables
from pytest_ipperf.report.page.words import day_text, listed
from pytest_ipperf.report.studies.file_transfer import plots
from pytest_ipperf.report.tables.cautions import multiplicity
from pytest_ipperf.report.tables.cell_results import VERDICTS, cell_results, headline, worst_first
from pytest_ipperf.report.tables.network_notes import testbed_text
from pytest_ipperf.report.tables.paragraphs import capital

_LEVELS, _SPREADS, _TRENDS = 24, 12, 12
"""Maximum number of figures of each kind; tables and files have the numbers of all cells."""
_SOUGHT = 400
"""Maximum number of histories searched for change points, those of bad cells first."""
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='none' "
    "stroke='%232f6fd0' stroke-width='2' d='M1 11h4l2-7 3 9 2-5h3'/%3E%3C/svg%3E"
)
Section = tuple[str, str, Markup]
"""Id, heading and content of a section; empty ones are left out."""


def page(summary: SessionSummary) -> str:
    """Return the whole page, which does not depend on the order in which tests ran."""
    summary = dataclasses.replace(summary, records=tuple(placed(summary.records)))
    sections = [each for each in _sections(summary) if each[2]]
    links = [element("a", title, href=f"#{name}") for name, title, _ in sections]
    body = joined(
        (
            element("a", "To the answer", href="#answer", class_="skip"),
            element("header", *_head(summary)),
            element("nav", bullets(links), aria_label="Parts of this page"),
            element("main", *(_section(*each) for each in sections)),
        ),
        "\n",
    )
    return html_file(_title(summary), body, Markup(f'<link rel="icon" href="{_ICON}">'), style=grade_rules())


def _title(summary: SessionSummary) -> str:
    title = summary.completeness.banner or (summary.night.headline if summary.night else question(summary.records))
    return f"{title} - pytest-ipperf {summary.name}"


def _head(summary: SessionSummary) -> Iterator[Markup]:
    yield element("p", f"pytest-ipperf, {day_text(summary.began_at)}", class_="kicker")
    if banner := summary.completeness.banner:
        word, _, rest = banner.partition(": ")
        light = element("span", shape(BROKEN), word, class_="light")
        so_far = element("p", f"{headline(summary, cell_results(summary))}.")
        yield element("div", element("p", element("strong", light, ": ", rest)), so_far, class_=f"banner {BROKEN}")
    if summary.night:
        yield night_part(summary.night)
        yield element("h2", question(summary.records), class_="question")
    else:
        yield element(
            "h1", question(summary.records) if summary.records or summary.completeness.is_whole else "No answer yet"
        )
    yield element("p", _where(summary), class_="soft")


def _where(summary: SessionSummary) -> str:
    """Return testbed, design and duration as one line."""
    beds = dict.fromkeys(record.testbed for record in summary.records)
    parts = [testbed_text([each for each in summary.records if each.testbed == bed]) for bed in beds]
    designs = listed(dict.fromkeys(record.design for record in summary.records)) if summary.records else ""
    parts += [f"design {designs}"] if designs else []
    parts += [f"measured in {seconds_text(summary.seconds)}"] if summary.seconds is not None else []
    return capital("; ".join(parts))


def _section(name: str, title: str, content: Markup) -> Markup:
    return element("section", element("h2", title), content, id=name)


def _sections(summary: SessionSummary) -> Iterator[Section]:
    files = f"the files in {summary.folder / 'tables'} have them all"
    shown = latest(summary.records)
    answer = "The answer" if summary.completeness.is_whole else "The answer so far"
    yield "answer", "What the screening found" if summary.night else answer, _answer(summary)
    of = " (screening)" if summary.night else ""
    yield "tables", f"Tables{of}", tables(summary.records, files) if summary.records else NOTHING
    yield "levels", f"By connections and other levels{of}", _levels(shown, files)
    yield "course", f"Over the time of the measurement{of}", _courses(shown)
    yield "spread", f"Distributions{of}", _spreads(summary, shown)
    yield "trend", "Over time", _trends(summary, shown)
    yield "cells", "All cells", cells(summary.records, summary.night) if summary.records or summary.night else NOTHING
    yield "method", "Method", method(summary)
    yield "environment", "Environment", environment(summary)


def _answer(summary: SessionSummary) -> Markup:
    """Return the answers by arm, without the troubles that the night section lists."""
    night = summary.night
    left = [each for each in summary.troubles if night is None or each.nodeid not in night.troubles]
    records = [record for record in summary.records if not record.twin]
    parts = [counted(records, left), element("div", *answers(records), class_="arms")]
    aa_check = None if night else aa_check_of(summary.records, lambda name: METRICS[name].metric)
    parts += [aa_check_line(aa_check)] if aa_check else []
    if not night and not summary.question.get("confirm") and (alone := multiplicity(summary.records)):
        parts.append(element("p", f"{alone}.", class_="soft"))
    parts += [element("h3", "Without an answer"), troubles(left)] if left else []
    return joined(parts)


def _levels(records: Sequence[Record], files: str) -> Markup:
    """Return the figures of sweeps; if there are too many, those with the worst answers, in their usual order."""
    sweeps = level_sweeps(records)
    worst = [VERDICTS.index(worst_first(sweep.records)[0].verdict) for sweep in sweeps]
    chosen = sorted(sorted(range(len(sweeps)), key=worst.__getitem__)[:_LEVELS])
    figures = [level_figure(sweeps[at], number) for number, at in enumerate(chosen)]
    return _figures(figures, len(sweeps) - len(figures), f"they are in the tables, and {files}")


def _courses(records: Sequence[Record]) -> Markup:
    figures = [
        Figure(
            name=f"course-{number}",
            title=plot.title,
            svg=plot.bare,
            keys={},
            caption=plot.caption,
            head=plot.head,
            rows=list(plot.rows),
        )
        for number, plot in enumerate(plots(records))
    ]
    return _figures(figures, 0, "")


def _spreads(summary: SessionSummary, records: Sequence[Record]) -> Markup:
    """Return the figures of distributions; if there are too many, those of the worst cells, in their usual order."""
    kept = {workload for workload, _ in summary.samples}
    by_workload = {record.workload: record for record in records if record.workload in kept}
    chosen = {record.workload: None for record in worst_first(records) if record.workload in kept}
    drawn = set(list(chosen)[:_SPREADS])
    shown = [record for workload, record in by_workload.items() if workload in drawn]
    found = [
        spread_figure(record, summary.samples, _same(record, records), number) for number, record in enumerate(shown)
    ]
    return _figures([each for each in found if each], len(chosen) - len(shown), f"the samples lie in {summary.folder}")


def _trends(summary: SessionSummary, records: Sequence[Record]) -> Markup:
    by_key = {record.key: record for record in records}
    if summary.night:
        ruled = [cell.record for cell in summary.night.cells if cell.record]
        by_key |= {record.key: record for record in reversed(worst_first(ruled))}
    noticed = _noticed(summary)
    keys = sorted((key for key in by_key if summary.histories.get(key)), key=lambda key: not _bad(by_key[key], noticed))
    # The search for change points is slow for very many histories.
    found = [trend for key in keys[:_SOUGHT] if (trend := trend_of(by_key[key], summary.histories[key]))]
    drawn = sorted(found, key=lambda each: not (each.change_points or _bad(each.record, noticed)))[:_TRENDS]
    figures = [trend_figure(each, _same(each.record, records), number) for number, each in enumerate(drawn)]
    return _figures(figures, len(keys) - len(figures), "the records of all sessions have them")


def _bad(record: Record, noticed: Collection[HistoryKey]) -> bool:
    """Return whether the trend of a cell is of interest: it exceeds its margin or was noticed by a night."""
    return record.verdict == "exceeds" or record.key in noticed


def _noticed(summary: SessionSummary) -> set[HistoryKey]:
    """Return the cells that a night flagged or did not find within their margin."""
    cells_ = summary.night.cells if summary.night else ()
    return {cell.key for cell in cells_ if cell.flagged or cell.decision is not GateDecision.WITHIN}


def _same(record: Record, among: Iterable[Record]) -> list[Record]:
    """Return the records of the same protocol and metric, among which the level has to be named."""
    return [each for each in among if (each.protocol, each.metric) == (record.protocol, record.metric)]


def _figures(figures: Sequence[Figure], left: int, elsewhere: str) -> Markup:
    if not figures:
        return NOTHING
    parts = [element("div", *(each.html() for each in figures), class_="figures")]
    if left > 0:
        parts.append(element("p", f"{left} more are not drawn here; {elsewhere}.", class_="soft"))
    return joined(parts)
