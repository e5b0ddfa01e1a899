"""Describe the method, so that a reader can judge a session and repeat it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pytest_ipperf.core.design.cell import client_text
from pytest_ipperf.core.design.design import PAPER
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.words import day_text, listed, margin_text
from pytest_ipperf.report.flow.tables import answered
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, element, joined
from pytest_ipperf.report.page.method.glossary import with_terms
from pytest_ipperf.report.tables.intervals import levels_text
from pytest_ipperf.report.tables.network_notes import testbed_text
from pytest_ipperf.report.tables.paragraphs import capital
from pytest_ipperf.report.tables.verdict_rows import verdict_notes

Facts = list[tuple[str, str]]
_NOTES = 12
"""Number of a session's notes that are shown; the others are counted."""


def method(summary: SessionSummary) -> Markup:
    """Return estimand, numbers, intervals, design, margins, order and times, as a list of terms."""
    records = answered(summary.records)
    of_records = terms(_of_records(records), linked=True) if records else NOTHING
    return joined((of_records, terms(_of_question(summary)), *_definitions(records)))


def _of_records(records: Sequence[Record]) -> Facts:
    designs = listed(dict.fromkeys(_design(record) for record in records))
    seeds = listed(dict.fromkeys(str(record.seed) for record in records))
    margins: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        margins[PROTOCOLS[record.protocol].title + " " + METRICS[record.metric].metric.title].append(record)
    judged = [f"{name}: {margin_text(own)}" for name, own in margins.items() if own[0].judges]
    rules = dict.fromkeys(" ".join(verdict_notes(record)) for record in records)
    return [
        ("Design", designs),
        ("Compared with", listed(dict.fromkeys(record.reference.arm.title for record in records))),
        ("Change", "; ".join(dict.fromkeys(_change(record) for record in records))),
        ("Numbers", listed(dict.fromkeys(_numbers(record) for record in records))),
        *([("Margins", "; ".join(judged))] if judged else []),
        ("Verdicts", " ".join(rules)),
        ("Order", listed(dict.fromkeys(_order(record, seeds) for record in records))),
        ("Warm-up", "one run of each arm at the beginning of each epoch, which is discarded"),
        ("Testbed", "; ".join(_testbeds(records))),
        ("Client", listed(dict.fromkeys(client_text(r.client, r.rate_per_s, r.workers) for r in records))),
        ("Servers", listed(dict.fromkeys(_server(record) for record in records))),
        *_failures([record for record in records if PROTOCOLS[record.protocol].kind.counts_failures]),
    ]


def _design(record: Record) -> str:
    never = "" if record.judges else ", which never judges"
    looks = f", at most {record.looks} looks" if record.looks > 1 else ""
    return f"{record.design}{looks}{never}"


def _order(record: Record, seeds: str) -> str:
    study = PROTOCOLS[record.protocol].study
    if study and study.in_order and record.design == PAPER:
        return "all runs of an arm before those of the next, as the study had them"
    return f"every arm once in each block, within it in a random order that seed {seeds} gives"


def _change(record: Record) -> str:
    if record.epochs == 1:
        return "of the means, without an interval, as one epoch shows no variation between epochs"
    metric = METRICS[record.metric].metric
    how = "log ratio" if metric.scale == "ratio" else "difference"
    found = f"each epoch's {metric.location} of its blocks' {how} to the reference, the mean over the epochs"
    if not record.judges:
        return f"{found}; without an interval, as the design never judges"
    return f"{found}, with a two-sided {levels_text([record])} t interval over the epochs, by which it is judged"


def _numbers(record: Record) -> str:
    epochs = f"{record.epochs} epoch{'s' * (record.epochs != 1)}"
    runs = f"{epochs} of {record.blocks} block{'s' * (record.blocks != 1)}, so {len(record.test.values)} runs"
    length = f" of {seconds_text(record.run_s)} after {seconds_text(record.warmup_s)}" if record.run_s else ""
    return f"{runs} of each arm{length}"


def _testbeds(records: Iterable[Record]) -> list[str]:
    by_name: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_name[record.testbed].append(record)
    return list(dict.fromkeys(testbed_text(own).removeprefix("testbed ") for own in by_name.values()))


def _server(record: Record) -> str:
    return f"{PROTOCOLS[record.protocol].title}: {record.server or 'agent'}"


def _failures(records: Sequence[Record]) -> Facts:
    """Return the failures of applications; losses of flows are a metric."""
    if not records:
        return []
    # The reference is measured for as long as any other arm.
    longest = sorted(records, key=lambda record: record.epochs)
    tests = {(record.cell, record.server, record.design): record.test for record in longest}
    references = {(record.workload, record.server, record.design): record.reference for record in longest}
    sides = (*tests.values(), *references.values())
    failed, attempted = sum(sum(side.failed.values()) for side in sides), sum(side.attempted for side in sides)
    deadlines = listed(dict.fromkeys(seconds_text(record.deadline_s) for record in records))
    with_times = [record for record in records if PROTOCOLS[record.protocol].kind.has_times]
    if not with_times:
        return [("Failures", f"{failed or 'none'} of {attempted} transfers")]
    alone = len(with_times) == len(records)
    things, one = ("connections", "one") if alone else ("connections and transfers", "a connection")
    counted = f"{failed or 'none'} of {attempted} {things}"
    return [("Failures", f"{counted}; {one} that fails counts with the deadline of {deadlines}")]


def _of_question(summary: SessionSummary) -> Facts:
    lasted = f"{day_text(summary.began_at)}; " + (
        f"it took {seconds_text(summary.seconds)}"
        if summary.seconds is not None
        else "how long it took was not kept"
        if summary.completeness.is_whole
        else summary.completeness.state.value
    )
    taken = sorted({record.taken_from for record in summary.records if record.taken_from})
    return [
        ("Session", f"{summary.name}{f', saved as {summary.saved}' if summary.saved else ''}"),
        ("Measured", lasted),
        *([("Reused", f"some cells from session {listed(taken)}")] if taken else []),
        *([("Notes", _notes(summary.notes))] if summary.notes else []),
    ]


def _notes(notes: Sequence[str]) -> str:
    left = len(notes[_NOTES:])
    shown = (note if note.endswith(".") else f"{note}." for note in notes[:_NOTES])
    return " ".join(shown) + (f" And {left} more, in the records." if left else "")


def _definitions(records: Iterable[Record]) -> list[Markup]:
    """Return the definition of each metric: formula, unit, source."""
    names = dict.fromkeys(record.metric for record in records)
    found: Facts = []
    for name in names:
        metric = METRICS[name].metric
        unit = "a share or plain number" if metric.unit == "1" else f"in {metric.unit}"
        better = metric.direction.replace("_", " ")
        how = f"compared by {metric.scale}, in {UNITS_OF_CHANGE[metric.scale]}"
        found.append((capital(metric.title), f"{metric.formula}; {unit}, {better}; {how}. Source: {metric.source}."))
    return [element("h3", "What was measured"), terms(found)] if found else []


def terms(facts: Facts, *, linked: bool = False) -> Markup:
    """Return a list of terms; if `linked`, words of the glossary in the descriptions lead to it."""
    shown = ((name, with_terms(text) if linked else text) for name, text in facts)
    return element("dl", *(joined((element("dt", name), element("dd", text))) for name, text in shown))
