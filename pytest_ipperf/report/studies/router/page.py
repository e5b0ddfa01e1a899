"""Write the HTML page of Table V in the study's colours, with its six figures; it loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.report.plot_style import inline
from pytest_ipperf.report.studies.router.experiments import Experiment
from pytest_ipperf.report.studies.router.grades import GRADES, Grade
from pytest_ipperf.report.studies.router.plots import DrawnFigure, caption
from pytest_ipperf.report.studies.router.series import FigureCurves
from pytest_ipperf.report.studies.router.style import class_of, style
from pytest_ipperf.report.studies.router.summary import ArmRatio, Summary
from pytest_ipperf.report.studies.router.text import TITLE, how, interval_text, notes, own_text, paper_text, where

_STUDY = (
    "A. Jaha, “Performance Evaluation of IPv4, IPv6, and ISATAP Routers on Windows Server 2008”. Its own figures stand "
    "in the columns called paper; it states neither their spread nor how long it measured."
)


def page(parts: Iterable[tuple[Summary, Sequence[DrawnFigure]]], made: str = "") -> str:
    """The page of all summaries with their figures; `made` says when it was made."""
    body = [f"<h1>{escape(TITLE)}</h1>", f'<p class="soft">{escape(_STUDY)}</p>']
    for number, (summary, drawn) in enumerate(parts):
        body += [f"<h2>{escape(_capital(where(summary)))}</h2>", f"<p>{escape(_capital(f'{made}{how(summary)}'))}.</p>"]
        body += [*_table(summary), *_key(), *_notes(summary)]
        body += [line for each in drawn for line in _figure(each, summary, f"s{number}f{each.plot.number}-")]
        body += _definitions(summary.experiments)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(TITLE)}</title>",
            f"<style>{style()}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )


def _table(summary: Summary) -> list[str]:
    heads = "".join(
        f'<th scope="col">{escape(each.title)}<small>{escape(each.scale)}</small></th><th scope="col">paper</th>'
        for each in summary.experiments
    )
    rows = []
    for arm in summary.arms:
        cells = "".join(_cells(summary, each, arm) for each in summary.experiments)
        rows.append(f'<tr><th scope="row">{escape(arm.title)}</th>{cells}</tr>')
    confidence = f"{100 * summary.records[0].confidence:.0f} %"
    graded = "" if summary.bare else f", with {confidence} intervals and the grades they allow"
    return [
        '<div class="wide" role="region" aria-label="Table V" tabindex="0">',
        "<table>",
        _caption(f"Table V: each arm against IPv4{graded}"),
        f'<thead><tr><th scope="col">Router</th>{heads}</tr></thead>',
        f"<tbody>{''.join(rows)}</tbody>",
        "</table>",
        "</div>",
    ]


def _caption(text: str) -> str:
    """Whose text stays in sight while a wide table is moved to and fro."""
    return f"<caption><span>{escape(text)}</span></caption>"


def _cells(summary: Summary, experiment: Experiment, arm: Arm) -> str:
    arm_ratio = summary.ratios[experiment.name, arm]
    return _own_cell(arm_ratio) + _paper_cell(arm_ratio)


def _own_cell(arm_ratio: ArmRatio) -> str:
    if arm_ratio.ratio is None and not arm_ratio.is_reference:
        return '<td><span class="soft">nothing to compare</span></td>'
    found, figure = arm_ratio.graded, f"<b>{own_text(arm_ratio)}</b>"
    if found is None:
        return f"<td>{figure}</td>"
    if arm_ratio.ratio is not None:
        figure += f"<small>{interval_text(arm_ratio.ratio, arm_ratio.experiment)}</small>"
    if found.best == found.worst:
        return f'<td class="{class_of(found.best.colour)}">{figure}<small>{found.best.name}</small></td>'
    first, last = GRADES.index(found.best), GRADES.index(found.worst)
    bands = "".join(_band(each) for each in GRADES[first : last + 1])
    return f'<td class="several"><div>{figure}</div>{bands}</td>'


def _band(grade: Grade) -> str:
    return f'<div class="band {class_of(grade.colour)}">{grade.name}</div>'


def _paper_cell(arm_ratio: ArmRatio) -> str:
    grade = arm_ratio.paper_grade
    if grade is None:
        return '<td><span class="soft">not in the study</span></td>'
    return f'<td class="{class_of(grade.colour)}"><b>{paper_text(arm_ratio)}</b><small>{grade.name}</small></td>'


def _key() -> list[str]:
    """What the colours mean; the words stand in every cell too."""
    texts = []
    for number, grade in enumerate(GRADES):
        least, most = float(grade.least), f"{1 / float(grade.least):.4g}" if grade.least else ""
        above = f"{1 / float(GRADES[number - 1].least):.4g}" if number else ""
        rate = (
            f"{100 * least:.0f} % of IPv4 or more"
            if grade.least
            else f"less than {100 * float(GRADES[-2].least):.0f} %"
        )
        multiple = f"{most} times or less" if most else f"more than {above} times"
        texts.append(f'<li class="{class_of(grade.colour)}">{grade.name}: {rate}; {multiple}</li>')
    return ['<ul class="key" aria-label="Grades: share of a rate; multiple of a time or loss">', *texts, "</ul>"]


def _notes(summary: Summary) -> list[str]:
    return ["<ul>", *(f"<li>{escape(note)}</li>" for note in notes(summary)), "</ul>"]


def _figure(drawn: DrawnFigure, summary: Summary, prefix: str) -> list[str]:
    title = f"{drawn.plot.title} (paper 001, Fig. {drawn.plot.number}, again)"
    return [
        f"<h3>{escape(title)}</h3>",
        "<figure>",
        f'<div class="drawn" role="region" aria-label="{escape(title)}" tabindex="0">',
        inline(drawn.bare, prefix, title),
        "</div>",
        f"<figcaption>{escape(caption(drawn.curves, summary))}.</figcaption>",
        "<details><summary>The same as a table</summary>",
        *_values(drawn.curves, title),
        "</details>",
        "</figure>",
    ]


def _values(found: FigureCurves, title: str) -> list[str]:
    heads = "".join(f'<th scope="col">{escape(arm.title)}</th>' for arm in found.points)
    rows = []
    for at, level in enumerate(found.sweep.texts):
        cells = "".join(f'<td class="number">{_value(found, arm, at)}</td>' for arm in found.points)
        rows.append(f'<tr><th scope="row">{escape(level)}</th>{cells}</tr>')
    what = f"{title}: {found.experiment.measured.title}{f' in {found.unit.name}' if found.unit.name else ''}"
    return [
        f'<div class="wide" role="region" aria-label="{escape(what)}" tabindex="0">',
        f"<table>{_caption(what if found.bare else f'{what}, with 95 % intervals')}",
        f'<thead><tr><th scope="col">{escape(found.sweep.dimension.title)}</th>{heads}</tr></thead>',
        f"<tbody>{''.join(rows)}</tbody></table></div>",
    ]


def _value(found: FigureCurves, arm: Arm, at: int) -> str:
    point = next((each for each in found.points[arm] if each.at == at), None)
    if point is None:
        return ""
    text = found.unit.text(point.mean)
    if point.interval is None:
        return text
    return f"{text}<small>[{found.unit.text(point.interval.low)}, {found.unit.text(point.interval.high)}]</small>"


def _definitions(experiments: Iterable[Experiment]) -> list[str]:
    """What each column is: formula, unit, source."""
    lines = ["<h3>What was measured</h3>", "<dl>"]
    for each in experiments:
        metric = each.measured
        unit = f" In {metric.unit}." if metric.unit != "1" else " A share."
        lines += [
            f"<dt>{escape(each.title)}: {escape(metric.title)}</dt>",
            f"<dd>{escape(_capital(metric.formula))}.{unit} {escape(metric.source)}.</dd>",
        ]
    return [*lines, "</dl>"]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
