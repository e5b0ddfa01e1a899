"""Write the answer section: question and findings in sentences, by arm."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from pytest_ipperf.core.design.cell import Arm, client_text
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.question import BESIDE
from pytest_ipperf.core.nightly.session_summary import Trouble
from pytest_ipperf.core.records.completeness import UNMEASURED
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.tables import answered, change_of_means
from pytest_ipperf.report.page.badges import badge, trouble_class, verdict_class
from pytest_ipperf.report.page.markup import NOTHING, Markup, bullets, element, joined
from pytest_ipperf.report.page.words import (
    at_levels,
    level_text,
    level_words,
    listed,
    margin_text,
    spoken,
    subject,
    unbroken,
)
from pytest_ipperf.report.tables.arm_rows import arm_rank
from pytest_ipperf.report.tables.cell_results import MEASURED, UNJUDGED, VERDICTS, change_text
from pytest_ipperf.report.tables.component_rows import deciding_part
from pytest_ipperf.report.tables.paragraphs import capital

_NAMED = 5
"""Number of cells or tests with the same sentence that are named; the others are counted."""
_SENTENCES = 40
"""Number of sentences about tests without an answer that are shown; the others are counted."""
_LISTED = 3
"""Number of levels without a question that are listed; of more only the range is shown."""
_WHY = {
    "too_wide": "too wide for a margin of {}",
    "straddles": "on both sides of the margin of {}",
    "too_few_connections": "from too few connections for a margin of {}",
}
_KINDS = {
    "inconclusive": ("not measured: the budget was spent", "undecided"),
    "invalid": ("invalid: the measurement contradicts itself", "invalid"),
    "infrastructure": ("not measured: the testbed had trouble", "trouble"),
    "failed": ("failed for another reason than a margin", "failed"),
    UNMEASURED: ("no answer", "not measured"),
}


def question(records: Sequence[Record]) -> str:
    """Return the session's question: `Is IPv6 as good as IPv4 for HTTP and SMTP?`."""
    compared = [record for record in records if record.compared]
    if records and not compared:
        arms = sorted({record.test.arm for record in records}, key=arm_rank)
        protocols = listed(dict.fromkeys(PROTOCOLS[record.protocol].title for record in records))
        return f"Does {_arms(arms)} keep the limits of {protocols}?"
    records = compared
    arms = sorted({record.test.arm for record in records if not record.twin}, key=arm_rank)
    if not arms:
        return "How far does the reference differ from itself?" if records else "Nothing was judged"
    references = listed(dict.fromkeys(record.reference.arm.title for record in records))
    protocols = listed(dict.fromkeys(PROTOCOLS[record.protocol].title for record in records))
    if all(record.own_reference for record in records):
        against = listed(dict.fromkeys(level_words(record.reference.arm) for record in records))
        ways = listed(dict.fromkeys(spoken(replace(arm, level="")) for arm in arms))
        return f"Is {listed(dict.fromkeys(map(level_words, arms)))} as good as {against} for {protocols} over {ways}?"
    return f"Is {_arms(arms)} as good as {references} for {protocols}?"


def _arms(arms: Sequence[Arm]) -> str:
    """Return the names of the arms: `IPv6`, or `IPv6 (native, through a tunnel)`."""
    if len(arms) == 1 or len({arm.ipver for arm in arms}) > 1:
        return listed(map(spoken, arms))
    ways = ("native" if arm.transport == "native" else spoken(arm).partition(" ")[2] for arm in arms)
    return f"IPv{arms[0].ipver} ({', '.join(ways)})"


def answers(records: Iterable[Record]) -> list[Markup]:
    """Return a part for each arm with its sentences; cells that exceed their margin come first."""
    by_arm: dict[Arm, list[Record]] = defaultdict(list)
    for record in answered(records):
        by_arm[record.test.arm].append(record)
    return [_of_arm(arm, by_arm[arm]) for arm in sorted(by_arm, key=lambda arm: (arm.twin, arm_rank(arm)))]


def counted(records: Sequence[Record], without: Iterable[Trouble]) -> Markup:
    """Return badges that count the answers of each verdict, and the tests without an answer by kind."""
    found = Counter(record.verdict for record in answered(records))
    badges = [badge(f"{found[verdict]} {verdict}", verdict_class(verdict)) for verdict in VERDICTS if found[verdict]]
    kinds = Counter(trouble.kind for trouble in without)
    badges += [badge(f"{count} {_kind(kind)[1]}", trouble_class(kind)) for kind, count in kinds.items()]
    never = dict.fromkeys(record.design for record in records if not record.judges)
    note = f"Design {listed(never)} never judges: these are changes{_bare(records)}." if never else ""
    return joined((element("p", *badges, class_="counts"), element("p", note, class_="soft") if note else NOTHING))


def _bare(records: Iterable[Record]) -> str:
    """Return the kind of the changes under a design without intervals."""
    return " of the means" if all(record.estimate is None for record in records) else " without intervals"


def troubles(found: Iterable[Trouble]) -> Markup:
    """Return the items without an answer, grouped by kind and sentence."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in found:
        groups[each.kind, each.sentence].append(each.nodeid)
    return bullets(
        (
            joined(
                (
                    badge(_kind(kind)[1], trouble_class(kind)),
                    element("b", f" {capital(_kind(kind)[0])}. "),
                    f"{sentence} ",
                    element("small", _some(nodeids), class_="soft"),
                )
            )
            for (kind, sentence), nodeids in groups.items()
        ),
        most=_SENTENCES,
        class_="said",
    )


def _kind(kind: str) -> tuple[str, str]:
    return _KINDS.get(kind, (kind, kind))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"({', '.join(names[:_NAMED])}{more})"


def _of_arm(arm: Arm, records: Sequence[Record]) -> Markup:
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.protocol, record.metric, *_where(record)].append(record)
    place_of = _distinct(records)
    findings: list[tuple[list[Record], list[Record]]] = []
    for group in groups.values():
        chosen: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for part in map(deciding_part, group):
            chosen[part.verdict, part.metric].append(part)
        findings += [(parts, group) for parts in chosen.values()]
    findings.sort(key=lambda each: VERDICTS.index(each[0][0].verdict))
    items = [
        joined(
            (
                badge(parts[0].verdict, verdict_class(parts[0].verdict)),
                " ",
                element("b", _subject(parts[0]) + place_of(parts[0])),
                unbroken(_finding(parts, group)),
            )
        )
        for parts, group in findings
    ]
    return element("section", element("h3", spoken(arm)), bullets(items, class_="said"), class_="arm")


def _subject(part: Record) -> str:
    """Return the subject of a sentence, with the component that it is about."""
    return f"{subject(part)} {METRICS[part.metric].metric.label}" if part.metric in BESIDE else subject(part)


def _where(record: Record) -> tuple[str, ...]:
    client = client_text(record.client, record.rate_per_s, record.workers)
    return record.testbed, record.server, client, record.design


def _distinct(records: Sequence[Record]) -> Callable[[Record], str]:
    """Return a function that names where a record was measured, as far as records differ in that: ` on testbed lab`."""
    names = ("on testbed", "from server", "by client", "under design")

    def place_text(record: Record) -> str:
        places = [_where(each) for each in records if each.protocol == record.protocol]
        varying = [at for at in range(len(names)) if len({place[at] for place in places}) > 1]
        return "".join(f" {names[at]} {_where(record)[at]}" for at in varying)

    return place_text


def _finding(chosen: Sequence[Record], among: Sequence[Record]) -> str:
    """Return the sentence about records of one verdict by one metric, without its subject."""
    verdict = chosen[0].verdict
    if not chosen[0].compared or Limit.named(chosen[0].metric):
        return _each(chosen, among, lambda record: record.sentence) + "."
    if verdict == "within":
        return f" within {margin_text(chosen)}{at_levels(chosen, among)}{_largest(chosen, among)}."
    if verdict == "exceeds":
        return f" exceeds {margin_text(chosen)}{_each(chosen, among, change_text)}."
    if verdict == "inconclusive":
        return f" undecided{_each(chosen, among, _undecided)}."
    plain = verdict in (MEASURED, UNJUDGED)
    if plain and len(chosen) > _LISTED:
        return _range(chosen, among)
    return _each(chosen, among, _plain if plain else lambda record: record.sentence) + "."


def _range(chosen: Sequence[Record], among: Sequence[Record]) -> str:
    """Return the best and the worst of many levels that were only measured."""
    best, *_, worst = sorted(chosen, key=_badness)
    ends = " to ".join(f"{_plain(record)} ({level_text(record, among)})" for record in (best, worst))
    return f": {ends}, over {len(chosen)} levels."


def _each(chosen: Sequence[Record], among: Sequence[Record], text: Callable[[Record], str]) -> str:
    """Return ` at 10 connections: TEXT; at 100 connections: TEXT`, or `: TEXT` if levels need not be named."""
    shown = sorted(chosen, key=_badness, reverse=True)[:_NAMED] if len(chosen) > _NAMED else chosen
    texts = dict.fromkeys(f"{at_levels([record], among)}: {text(record)}" for record in shown)
    more = f"; and {len(chosen) - _NAMED} more, none of them worse" if len(chosen) > _NAMED else ""
    return ";".join(texts).replace(";: ", "; ") + more


def _largest(chosen: Sequence[Record], among: Sequence[Record]) -> str:
    worst = max(chosen, key=_badness)
    if worst.estimate is None:
        return ""
    at = at_levels([worst], among) if len(chosen) > 1 else ""
    return f"; {'worst ' if at else ''}change {change_text(worst)}{at}"


def _plain(record: Record) -> str:
    return change_text(record) or change_of_means(record) or "no change is known"


def _undecided(record: Record) -> str:
    why = next((_WHY[reason].format(margin_text([record])) for reason in record.reasons if reason in _WHY), "")
    return f"{change_text(record)}{f', {why}' if why else ''}"


def _badness(record: Record) -> float:
    """Return the change for the worse from the reference, whatever the metric's direction."""
    change = record.estimate
    if change is None:
        scale, means = METRICS[record.metric].metric.scale, (record.test.mean, record.reference.mean)
        change = means[0] - means[1] if scale == "difference" else means[0] / means[1] - 1 if means[1] else 0.0
    return change if METRICS[record.metric].metric.direction == "lower_is_better" else -change
