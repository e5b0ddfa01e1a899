"""Write the findings in sentences, by arm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.nightly.session_summary import Trouble
from pytest_ipperf.core.records.completeness import UNMEASURED
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.answer.names import Names, place_of, subject_of
from pytest_ipperf.report.answer.sentence import worse_by
from pytest_ipperf.report.answer.words import at_levels, level_text, margin_text, unbroken
from pytest_ipperf.report.flow.tables import answered, change_of_means
from pytest_ipperf.report.page.html.badges import badge, trouble_class, verdict_class
from pytest_ipperf.report.page.html.markup import Markup, bullets, element, joined
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
    "inconclusive": ("not measured: the budget was spent", "inconclusive"),
    "invalid": ("invalid: the measurement contradicts itself", "invalid"),
    "infrastructure": ("not measured: the testbed had trouble", "trouble"),
    "failed": ("failed for another reason than a margin", "failed"),
    UNMEASURED: ("no answer", "not measured"),
}


def answers(records: Iterable[Record]) -> list[Markup]:
    """Return a part for each arm with its sentences; cells that exceed their margin come first."""
    by_arm: dict[Arm, list[Record]] = defaultdict(list)
    for record in answered(records):
        by_arm[record.test.arm].append(record)
    return [_of_arm(arm, by_arm[arm]) for arm in sorted(by_arm, key=lambda arm: (arm.twin, arm_rank(arm)))]


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
    names = Names(records)
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.protocol, record.metric, *place_of(record)].append(record)
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
                element("b", subject_of(parts[0]) + names.place(parts[0])),
                unbroken(_finding(parts, group)),
            )
        )
        for parts, group in findings
    ]
    return element("section", element("h3", arm.title), bullets(items, class_="said"), class_="arm")


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
        return f" inconclusive{_each(chosen, among, _inconclusive)}."
    plain = verdict in (MEASURED, UNJUDGED)
    if plain and len(chosen) > _LISTED:
        return _range(chosen, among)
    return _each(chosen, among, _plain if plain else lambda record: record.sentence) + "."


def _range(chosen: Sequence[Record], among: Sequence[Record]) -> str:
    """Return the best and the worst of many levels that were only measured."""
    best, *_, worst = sorted(chosen, key=worse_by)
    ends = " to ".join(f"{_plain(record)} ({level_text(record, among)})" for record in (best, worst))
    return f": {ends}, over {len(chosen)} levels."


def _each(chosen: Sequence[Record], among: Sequence[Record], text: Callable[[Record], str]) -> str:
    """Return ` at 10 connections: TEXT; at 100 connections: TEXT`, or `: TEXT` if levels need not be named."""
    shown = sorted(chosen, key=worse_by, reverse=True)[:_NAMED] if len(chosen) > _NAMED else chosen
    texts = dict.fromkeys(f"{at_levels([record], among)}: {text(record)}" for record in shown)
    more = f"; and {len(chosen) - _NAMED} more, none of them worse" if len(chosen) > _NAMED else ""
    return ";".join(texts).replace(";: ", "; ") + more


def _largest(chosen: Sequence[Record], among: Sequence[Record]) -> str:
    worst = max(chosen, key=worse_by)
    if worst.estimate is None:
        return ""
    at = at_levels([worst], among) if len(chosen) > 1 else ""
    return f"; {'worst ' if at else ''}change {change_text(worst)}{at}"


def _plain(record: Record) -> str:
    return change_text(record) or change_of_means(record) or "no change is known"


def _inconclusive(record: Record) -> str:
    why = next((_WHY[reason].format(margin_text([record])) for reason in record.reasons if reason in _WHY), "")
    return f"{change_text(record)}{f', {why}' if why else ''}"
