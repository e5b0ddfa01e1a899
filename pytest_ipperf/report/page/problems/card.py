"""Write the card of one cell: its sentence, its runs, its distribution, its history, and how to measure it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.question import FAILED_SHARE
from pytest_ipperf.core.nightly.report import RED, GateDecision
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.answer.next_step import reproduce_command
from pytest_ipperf.report.answer.phases import phases_text
from pytest_ipperf.report.answer.since import since_text
from pytest_ipperf.report.answer.values import allowed_text, arrow_text
from pytest_ipperf.report.answer.words import unbroken
from pytest_ipperf.report.page.figures.axis import Axis
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.runs import runs_figure
from pytest_ipperf.report.page.figures.spread import spread_figure
from pytest_ipperf.report.page.figures.strip import axis_labels, common_axis, strip, strip_key
from pytest_ipperf.report.page.figures.trend import Trend, sparkline, trend_figure
from pytest_ipperf.report.page.html.badges import badge
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, anchor, command, element, joined
from pytest_ipperf.report.page.problems.evidence import capture_links, failures_text, trust_text
from pytest_ipperf.report.tables.cell_results import change_text
from pytest_ipperf.report.tables.component_rows import component_text, components_of, deciding_part, title_of
from pytest_ipperf.report.tables.paragraphs import capital

_NO_CAPTURES = "none; --ipperf-capture=20 keeps 20 packets of every run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A cell that is not green: its verdict as `word` and `class_`, and the `sentence` of a night's `decision`."""

    key: HistoryKey
    record: Record | None
    word: str
    class_: str
    sentence: str
    decision: GateDecision | None = None

    @property
    def is_worse(self) -> bool:
        """Whether the cell was found worse, by its verdict or the night's decision."""
        if self.decision:
            return self.decision in (*RED, GateDecision.ACCEPTED)
        return self.record is not None and self.record.verdict == "exceeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the cards of a page share: the session, names of its cells, trends, and the axis of sparklines."""

    summary: SessionSummary
    names: Names
    trends: Mapping[HistoryKey, Trend]
    spark_axis: Axis | None


def card_id(key: HistoryKey) -> str:
    """Return the id of a cell's card."""
    return f"problem-{anchor(key)}"


def card(problem: Problem, context: Context, *, is_open: bool, is_named: bool = True) -> Markup:
    """Return the card; the line of a closed one says what is wrong and by how much. With `is_named` it has an id."""
    record = problem.record
    shown = ({"open": ""} if is_open else {}) | ({"id": card_id(problem.key)} if is_named else {})
    name = context.names.cell(record) if record else str(problem.key)
    figures = unbroken(f"{arrow_text(record)}, {change_text(record) or 'no change known'}") if record else ""
    trend = context.trends.get(problem.key)
    spark = _spark(trend, context.spark_axis) if trend and context.spark_axis else NOTHING
    line = element(
        "summary",
        badge(problem.word, problem.class_),
        element("h3", name),
        element("span", figures, class_="figures-of"),
        spark,
    )
    body = _body(problem, record, context) if record else element("p", capital(problem.sentence))
    return element("details", line, body, class_=f"card {problem.class_}", **shown)


def _spark(trend: Trend, axis: Axis) -> Markup:
    count = len(trend.points)
    return element("span", sparkline(trend, axis), element("small", f"its last {count} sessions"), class_="spark-of")


def _body(problem: Problem, record: Record, context: Context) -> Markup:
    trend = context.trends.get(problem.key)
    figures = [each.html(level=4) for each in _figures(record, context, trend)]
    return joined(
        (
            element("p", capital(problem.sentence), class_="said"),
            _change(record),
            element("div", *figures, class_="evidence"),
            element("dl", *_facts(problem, record, context), class_="facts-of"),
        )
    )


def _change(record: Record) -> Markup:
    """Return the change on an axis of its own, with the margin."""
    part = deciding_part(record)
    axis = common_axis([part])
    drawn = strip(part, axis, label=f"Change {change_text(part)}, allowed {allowed_text(part) or 'anything'}")
    if not drawn:
        return NOTHING
    return joined((element("div", drawn, axis_labels(axis, part.change_unit), class_="change"), strip_key([part])))


def _figures(record: Record, context: Context, trend: Trend | None) -> Iterator[Figure]:
    name = context.names.workload(record)
    if runs := runs_figure(record):
        yield runs
    summary = context.summary
    # The samples of a night are those of its screening, also where fresh epochs have decided.
    of = f"{name}, screening" if summary.night else name
    if spread := spread_figure(summary.measured_as(record), record, summary.samples, of, only=_arms(record)):
        yield spread
    if trend:
        yield trend_figure(trend, name)


def _arms(record: Record) -> list[Arm]:
    return [side.arm for side in record.sides]


def _facts(problem: Problem, record: Record, context: Context) -> Iterator[Markup]:
    summary = context.summary
    facts: list[tuple[str, Markup | str]] = [
        ("Since when", since_text(record, summary, problem.decision) if problem.is_worse else ""),
        ("History", trend.history if (trend := context.trends.get(problem.key)) else ""),
        ("Trust", trust_text(record, summary)),
        ("Failures", failures_text(record, _failures_part(record, summary))),
        *((capital(title_of(name)), component_text(part)) for name, part in _others(record)),
        ("Phases", phases_text(record)),
        ("Captures", capture_links(record, summary.folder) or _NO_CAPTURES),
        ("Reproduce", command(text) if (text := reproduce_command(record, summary)) else ""),
        ("Records", element("code", f"{summary.folder}/main.jsonl")),
        ("Cell", element("code", record.cell)),
    ]
    for name, text in facts:
        if text:
            yield joined((element("dt", name), element("dd", text)))


def _failures_part(record: Record, summary: SessionSummary) -> Record | None:
    """Return the record of the share of failures of a cell; a night has a decision, and so a record, of its own."""
    if own := components_of(record).get(FAILED_SHARE):
        return own
    cells = summary.night.cells if summary.night else ()
    found = {each.key.cell: each.record for each in cells if each.key.metric == FAILED_SHARE}
    return found.get(record.cell) if record.metric != FAILED_SHARE else None


def _others(record: Record) -> Iterator[tuple[str, Record]]:
    """Yield the other components by their metrics."""
    return ((name, part) for name, part in components_of(record).items() if name != FAILED_SHARE)
