"""Lay out the page: the answer first, then what is wrong, then the data behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.flow.tables import latest, placed
from pytest_ipperf.report.page.answer.by_arm import answers, troubles
from pytest_ipperf.report.page.answer.cell_map import cell_map
from pytest_ipperf.report.page.answer.forest import forest
from pytest_ipperf.report.page.answer.provisional import provisional
from pytest_ipperf.report.page.cells.rows import CellList, cell_list
from pytest_ipperf.report.page.figures.arm_styles import markers
from pytest_ipperf.report.page.figures.figure import Figure, imported
from pytest_ipperf.report.page.figures.levels import level_figure, level_sweeps
from pytest_ipperf.report.page.figures.runs import runs_figure
from pytest_ipperf.report.page.figures.session_course import session_course
from pytest_ipperf.report.page.figures.spread import spread_figure
from pytest_ipperf.report.page.figures.study import study_figure
from pytest_ipperf.report.page.figures.trend import Trend, common_axis
from pytest_ipperf.report.page.head.banner import counts, session_head, title_of
from pytest_ipperf.report.page.history import history, trends_of
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, bullets, element, folded, html_file, joined
from pytest_ipperf.report.page.method.files import files
from pytest_ipperf.report.page.method.glossary import glossary, with_terms
from pytest_ipperf.report.page.method.hosts import environment
from pytest_ipperf.report.page.method.method import method
from pytest_ipperf.report.page.problems.card import Context, Problem, card_id
from pytest_ipperf.report.page.problems.cards import carded, cards, problems
from pytest_ipperf.report.page.tables.table_v import grade_rules, tables_v
from pytest_ipperf.report.page.tables.tables import count_of, tables
from pytest_ipperf.report.page.tables.tails import tails
from pytest_ipperf.report.studies import traffic
from pytest_ipperf.report.studies.file_transfer import plots
from pytest_ipperf.report.tables.cautions import multiplicity
from pytest_ipperf.report.tables.cell_results import VERDICTS, worst_first

_LEVELS, _SPREADS = 24, 12
"""Maximum number of figures of each kind; tables and files have the numbers of all cells."""
_FEW = 3
"""Number of cells up to which the runs of each are drawn, though nothing is wrong with it."""
_TABLES_SHOWN = 4
"""Number of tables above which they are folded."""
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='none' "
    "stroke='%232f6fd0' stroke-width='2' d='M1 11h4l2-7 3 9 2-5h3'/%3E%3C/svg%3E"
)
Section = tuple[str, str, str, Markup]
"""Id, text of its link, heading and content of a section; empty ones are left out."""


def page(summary: SessionSummary) -> str:
    """Return the whole page, which does not depend on the order in which tests ran."""
    return _Page(dataclasses.replace(summary, records=tuple(placed(summary.records)))).html()


class _Page:
    """A page in the making, with what its sections share."""

    def __init__(self, summary: SessionSummary) -> None:
        self._summary = summary
        self._shown = latest(summary.records)
        self._names = Names(summary.records)
        self._files = f"the files in {summary.folder / 'tables'} have them all"
        self._of = " (screening)" if summary.night else ""

    def html(self) -> str:
        sections = [each for each in self._sections() if each[3]]
        links = [element("a", link, href=f"#{name}") for name, link, _, _ in sections]
        body = joined(
            (
                markers(),
                element("a", "To the answer", href="#answer", class_="skip"),
                element("header", *session_head(self._summary)),
                element("nav", bullets(links), aria_label="Parts of this page"),
                element("main", *(_section(name, title, content) for name, _, title, content in sections)),
            ),
            "\n",
        )
        title = f"{title_of(self._summary)} - pytest-ipperf {self._summary.name}"
        rules = grade_rules() + self._cells.rules
        return html_file(title, body, Markup(f'<link rel="icon" href="{_ICON}">'), style=rules)

    def _sections(self) -> Iterator[Section]:
        summary, records = self._summary, self._summary.records
        answer = "The answer" if summary.completeness.is_whole else "The answer so far"
        if summary.night:
            yield "answer", "Screening", "What the screening found", self._answer()
        else:
            yield "answer", "Answer", answer, self._answer()
        yield "study", "Table V", f"The study's table{self._of}", tables_v(records)
        yield "map", "Map", "Map of all cells", self._map()
        yield "problems", "Problems", self._problem_title(), cards(self._problems, self._context)
        yield "levels", "Levels", f"By connections and other levels{self._of}", self._levels()
        yield "tails", "Tails", f"Tails and distributions{self._of}", self._tails()
        yield "course", "Course", f"Over the time of the measurement{self._of}", self._courses()
        yield "traffic", "Paper 004", f"The figures of paper 004 again{self._of}", self._traffic()
        yield "trend", "History", "Over the sessions", history(self._trends, self._names, self._carded)
        yield "cells", "All cells", "All cells", self._cells.html
        yield "tables", "Tables", f"Tables{self._of}", self._tables()
        yield "files", "Files", "Files", files(summary)
        yield "method", "Method", "Method", method(summary)
        yield "environment", "Hosts", "Hosts and versions", environment(summary)
        yield "glossary", "Glossary", "Glossary", folded("All terms of this page", glossary())

    def _answer(self) -> Markup:
        """Return forest plot and sentences, without the troubles that the night section lists."""
        summary, night = self._summary, self._summary.night
        left = [each for each in summary.troubles if night is None or each.nodeid not in night.troubles]
        records = [record for record in summary.records if not record.twin]
        parts = [counts(records, left)] if night else []
        parts += [forest(self._shown, self._names)]
        if records:
            said = element("div", *answers(records), class_="arms")
            parts.append(folded("In sentences, arm by arm", said, is_open=not any(r.compared for r in records)))
        if not night and not summary.question.get("confirm") and (alone := multiplicity(summary.records)):
            parts.append(element("p", with_terms(f"{alone}."), class_="soft"))
        parts.append(provisional(summary))
        parts += [element("h3", "Without an answer"), troubles(left)] if left else []
        return joined(parts)

    def _map(self) -> Markup:
        several = len(self._shown) > 1
        return cell_map(self._shown, self._names, self._summary.night) if several else NOTHING

    def _problem_title(self) -> str:
        count = len(self._problems)
        return f"{count} cell{'s' * (count != 1)} that {'are' if count != 1 else 'is'} not green"

    @cached_property
    def _problems(self) -> list[Problem]:
        return problems(self._summary.records, self._summary.night)

    @cached_property
    def _trends(self) -> dict[HistoryKey, Trend]:
        return trends_of(self._summary, self._shown)

    @cached_property
    def _context(self) -> Context:
        axis = common_axis(list(self._trends.values())) if self._trends else None
        return Context(summary=self._summary, names=self._names, trends=self._trends, spark_axis=axis)

    @cached_property
    def _carded(self) -> dict[HistoryKey, str]:
        return {problem.key: card_id(problem.key) for problem in carded(self._problems)}

    @cached_property
    def _cells(self) -> CellList:
        summary = self._summary
        return cell_list(summary.records, summary.night, self._names, self._carded, summary.folder)

    def _levels(self) -> Markup:
        """Return the figures of sweeps; if there are too many, those with the worst answers, in their usual order."""
        sweeps = level_sweeps(self._shown)
        worst = [VERDICTS.index(worst_first(sweep.records)[0].verdict) for sweep in sweeps]
        chosen = sorted(sorted(range(len(sweeps)), key=worst.__getitem__)[:_LEVELS])
        figures = [level_figure(sweeps[at], self._names.place(sweeps[at].records[0])) for at in chosen]
        return _figures(figures, len(sweeps) - len(figures), f"they are in the tables, and {self._files}")

    def _courses(self) -> Markup:
        of_session = session_course(self._summary, self._shown)
        figures = [
            Figure(
                title=plot.title,
                plots=[imported(plot.bare, f"course-{number}-", f"{plot.title}. {plot.caption}")],
                caption=plot.caption,
                head=plot.head,
                rows=list(plot.rows),
            )
            for number, plot in enumerate(plots(self._shown))
        ]
        told = {problem.key for problem in carded(self._problems)}
        few = [record for record in self._shown if record.key not in told] if len(self._shown) <= _FEW else []
        runs = [runs_figure(record, f"{self._names.cell(record)}: ") for record in few]
        return _figures([each for each in (of_session, *runs, *figures) if each], 0, "")

    def _traffic(self) -> Markup:
        return _figures([study_figure(drawn, f"{name}-") for name, drawn in traffic.plots(self._shown)], 0, "")

    def _tails(self) -> Markup:
        """Return percentiles, and the distributions of the worst workloads that have no card, in their usual order."""
        samples, records = self._summary.samples, self._shown
        told = {problem.record.workload for problem in carded(self._problems) if problem.record}
        kept = {workload for workload, _ in samples} - told
        by_workload = {record.workload: record for record in records if record.workload in kept}
        chosen = list({record.workload: None for record in worst_first(records) if record.workload in kept})
        drawn = set(chosen[: max(0, _SPREADS - len(told))])
        found = [
            spread_figure(self._summary.measured_as(record), record, samples, self._names.workload(record))
            for workload, record in by_workload.items()
            if workload in drawn
        ]
        left = len(chosen) - len(drawn)
        figures = _figures([each for each in found if each], left, f"the samples lie in {self._summary.folder}")
        return joined((tails(records, self._names), figures))

    def _tables(self) -> Markup:
        records = self._summary.records
        if not records:
            return NOTHING
        shown = tables(records, self._files)
        count, judged = count_of(records), any(record.judges for record in records)
        title = f"{count} tables, as in the terminal"
        return shown if count <= _TABLES_SHOWN else folded(title, shown, is_open=not judged)


def _section(name: str, title: str, content: Markup) -> Markup:
    return element("section", element("h2", title), content, id=name)


def _figures(figures: Sequence[Figure], left: int, elsewhere: str) -> Markup:
    if not figures and left <= 0:
        return NOTHING
    parts = [element("div", *(each.html() for each in figures), class_="figures")] if figures else []
    if left > 0:
        parts.append(element("p", f"{left} more are not drawn here; {elsewhere}.", class_="soft"))
    return joined(parts)
