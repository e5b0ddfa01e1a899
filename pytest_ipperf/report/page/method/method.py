"""Describe method and environment, so that a reader can judge a session and repeat it."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import client_text
from pytest_ipperf.core.design.design import PAPER
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.nightly.session_summary import HostSummary, SessionSummary
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.words import day_text, listed, margin_text
from pytest_ipperf.report.flow.tables import answered
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, boxed, caption, element, joined
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
    of_records = _terms(_of_records(records), linked=True) if records else NOTHING
    return joined((of_records, _terms(_of_question(summary)), *_definitions(records)))


def environment(summary: SessionSummary) -> Markup:
    """Return versions, command line and the facts of the hosts."""
    beds: dict[str, list[HostSummary]] = defaultdict(list)
    for host in summary.hosts:
        beds[host.testbed].append(host)
    shown = [_hosts(name, hosts) for name, hosts in beds.items()]
    nothing = element("p", "The facts of the hosts were not kept.", class_="soft")
    return joined((_terms(_versions(summary)), *(shown or [nothing])))


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
        ("Testbed", "; ".join(dict.fromkeys(_testbed(record, records) for record in records))),
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


def _testbed(record: Record, among: Iterable[Record]) -> str:
    return testbed_text([each for each in among if each.testbed == record.testbed]).removeprefix("testbed ")


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
    return " ".join(notes[:_NOTES]) + (f" And {left} more, in the records." if left else "")


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
    return [element("h3", "What was measured"), _terms(found)] if found else []


def _versions(summary: SessionSummary) -> Facts:
    asked = summary.question
    arguments = asked.get("arguments")
    command = shlex.join(["pytest", *map(str, arguments)]) if isinstance(arguments, list) else ""
    named = [("pytest-ipperf", "pytest_ipperf"), ("pytest", "pytest"), ("Schema of the records", "schema")]
    return [
        *([("Command", command)] if command else []),
        *((name, str(asked[key])) for name, key in named if key in asked),
        ("Records", str(summary.folder)),
    ]


def _hosts(testbed: str, hosts: Sequence[HostSummary]) -> Markup:
    """Return the facts of hosts, in a column for each; a fact that all share is shown once."""
    facts = [dict(_flat(host.facts)) for host in hosts]
    names = list(dict.fromkeys(name for each in facts for name in each))
    heads = [element("th", _called(host), scope="col") for host in hosts]
    rows = []
    for name in names:
        values = [each.get(name, "") for each in facts]
        if len(set(values)) == 1 and len(values) > 1:
            cells = [element("td", values[0], colspan=str(len(values)))]
        else:
            cells = [element("td", value) for value in values]
        rows.append(element("tr", element("th", name, scope="row"), *cells))
    head = element("thead", element("tr", element("td", NOTHING), *heads))
    title = f"Hosts of testbed {testbed}"
    facts_table = element("table", caption(title), head, element("tbody", *rows), class_="facts")
    return element("details", element("summary", f"{title} ({len(names)} facts)"), boxed(title, facts_table))


def _called(host: HostSummary) -> str:
    """Return the name of a host: `client: alpha (198.18.0.1, 2001:2::1)`; in a lab the role alone."""
    name = f": {host.name}" if host.name not in ("", host.role) else ""
    return f"{host.role}{name}" + (f" ({', '.join(host.addresses)})" if host.addresses else "")


def _flat(facts: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    """Yield nested facts under their full names: `sysctl net.core.somaxconn`."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name} ")
        else:
            yield f"{before}{name}", _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _terms(facts: Facts, *, linked: bool = False) -> Markup:
    """Return a list of terms; if `linked`, words of the glossary in the descriptions lead to it."""
    shown = ((name, with_terms(text) if linked else text) for name, text in facts)
    return element("dl", *(joined((element("dt", name), element("dd", text))) for name, text in shown))
