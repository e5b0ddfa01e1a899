"""Write Table V of paper 001 in the study's colours, for a session's page and as a page with its six figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.page.figures.study import study_figure
from pytest_ipperf.report.page.html.markup import Markup, boxed, bullets, caption, element, folded, html_file, joined
from pytest_ipperf.report.studies.figures.experiment import Experiment
from pytest_ipperf.report.studies.figures.plot import DrawnFigure
from pytest_ipperf.report.studies.router.grades import GRADES, Grade
from pytest_ipperf.report.studies.router.style import COLOURS, class_of
from pytest_ipperf.report.studies.router.summary import ArmRatio, Summary, summaries
from pytest_ipperf.report.studies.router.text import TITLE, how, interval_text, notes, own_text, paper_text, where
from pytest_ipperf.report.tables.paragraphs import capital

_STUDY = (
    "A. Jaha, “Performance Evaluation of IPv4, IPv6, and ISATAP Routers on Windows Server 2008”. Its own figures stand "
    "in the columns called paper; it states neither their spread nor how long it measured."
)


def grade_rules() -> str:
    """Return the style rules of the grades' colours."""
    return "".join(
        f".{class_of(name)} {{ background: {ground}; color: {ink}; }}\n" for name, (ground, ink) in COLOURS.items()
    )


def study_page(parts: Iterable[tuple[Summary, Sequence[DrawnFigure]]], made: str = "") -> str:
    """Return the page of all summaries with their figures; `made` is the `stamp` of the file."""
    body = [element("h1", TITLE), element("p", _STUDY, class_="soft")]
    for number, (summary, drawn) in enumerate(parts):
        body += [element("h2", capital(where(summary))), element("p", f"{capital(f'{made}{how(summary)}')}.")]
        body += [table_v(summary), _key(), bullets(notes(summary))]
        shown = [study_figure(each, f"s{number}f{each.plot.number}-").html() for each in drawn]
        body += [element("div", *shown, class_="figures")]
        body += _definitions(summary.experiments)
    return html_file(TITLE, element("main", joined(body, "\n")), style=grade_rules())


def tables_v(records: Sequence[Record]) -> Markup:
    """Return the tables of a session with their key, testbed and notes; empty unless two columns were measured."""
    found = summaries(records)
    if not found:
        return Markup("")
    shown = [
        joined((table_v(each), element("p", f"{capital(where(each))}; {how(each)}.", class_="soft"), _notes(each)))
        for each in found
    ]
    return joined((element("p", _STUDY, class_="soft"), *shown, _key()))


def _notes(summary: Summary) -> Markup:
    """Return the notes and the definitions of the columns, folded."""
    return folded("Notes on this table", bullets(notes(summary)), element("dl", *_terms(summary.experiments)))


def table_v(summary: Summary) -> Markup:
    """Return the table."""
    heads = [
        head
        for each in summary.experiments
        for head in (
            element("th", each.title, element("small", each.scale), scope="col"),
            element("th", "paper", scope="col"),
        )
    ]
    rows = [
        element(
            "tr",
            element("th", arm.title, scope="row"),
            *(cell for each in summary.experiments for cell in _cells(summary, each, arm)),
        )
        for arm in summary.arms
    ]
    head = element("thead", element("tr", element("th", "Router", scope="col"), *heads))
    table = element("table", caption(TITLE), head, element("tbody", *rows), class_="graded")
    return boxed("Table V", table)


def _cells(summary: Summary, experiment: Experiment, arm: Arm) -> tuple[Markup, Markup]:
    arm_ratio = summary.ratios[experiment.name, arm]
    return _own_cell(arm_ratio), _paper_cell(arm_ratio)


def _own_cell(arm_ratio: ArmRatio) -> Markup:
    if arm_ratio.ratio is None and not arm_ratio.is_reference:
        return element("td", element("span", "nothing to compare", class_="soft"))
    found, figure = arm_ratio.graded, [element("b", own_text(arm_ratio))]
    if found is None:
        return element("td", *figure)
    if arm_ratio.ratio is not None:
        figure.append(element("small", interval_text(arm_ratio.ratio, arm_ratio.experiment)))
    if found.best == found.worst:
        return element("td", *figure, element("small", found.best.name), class_=class_of(found.best.colour))
    first, last = GRADES.index(found.best), GRADES.index(found.worst)
    return element("td", element("div", *figure), *map(_band, GRADES[first : last + 1]), class_="several")


def _band(grade: Grade) -> Markup:
    return element("div", grade.name, class_=f"band {class_of(grade.colour)}")


def _paper_cell(arm_ratio: ArmRatio) -> Markup:
    grade = arm_ratio.paper_grade
    if grade is None:
        return element("td", element("span", "not in the study", class_="soft"))
    parts = element("b", paper_text(arm_ratio)), element("small", grade.name)
    return element("td", *parts, class_=class_of(grade.colour))


def _key() -> Markup:
    """Return the key of the colours; every cell has its grade in words too."""
    items = []
    for number, grade in enumerate(GRADES):
        least, most = float(grade.least), f"{1 / float(grade.least):.4g}" if grade.least else ""
        above = f"{1 / float(GRADES[number - 1].least):.4g}" if number else ""
        rate = (
            f"{100 * least:.0f} % of IPv4 or more"
            if grade.least
            else f"less than {100 * float(GRADES[-2].least):.0f} %"
        )
        multiple = f"{most} times or less" if most else f"more than {above} times"
        items.append(element("li", f"{grade.name}: {rate}; {multiple}", class_=class_of(grade.colour)))
    return element("ul", *items, class_="key", aria_label="Grades: share of a rate; multiple of a time or loss")


def _definitions(experiments: Iterable[Experiment]) -> list[Markup]:
    """Return the definition of each column, with its heading."""
    return [element("h3", "What was measured"), element("dl", *_terms(experiments))]


def _terms(experiments: Iterable[Experiment]) -> list[Markup]:
    """Return the definition of each column: formula, unit, source."""
    lines = []
    for each in experiments:
        metric = each.measured
        unit = f" In {metric.unit}." if metric.unit != "1" else " A share."
        lines += [
            element("dt", f"{each.title}: {metric.title}"),
            element("dd", f"{capital(metric.formula)}.{unit} {metric.source}."),
        ]
    return lines
