"""Write the night section: the gate status, and every cell that needs attention."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pytest_ipperf.core.nightly.aa_check import AACheck
from pytest_ipperf.core.nightly.report import RANK, RED, CellReport, GateDecision, GateStatus, NightReport
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.answer.aa_check import aa_check_text
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.answer.sentence import figures_of, worse_by
from pytest_ipperf.report.answer.since import since_text
from pytest_ipperf.report.answer.values import arrow_text, note_on_change
from pytest_ipperf.report.answer.words import unbroken
from pytest_ipperf.report.page.html.badges import badge, decision_class, gate_status_class, shape
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, anchor, bullets, element, joined
from pytest_ipperf.report.tables.paragraphs import capital

_TITLES = {
    GateDecision.EXCEEDS: "Beyond the margin",
    GateDecision.WORSE: "Worse than in earlier nights",
    GateDecision.ACCEPTED: "Accepted",
    GateDecision.GONE: "Accepted",
    GateDecision.WITHIN: "",
}
"""Headings that differ from the wording of the decision; cells within their margin have none and are counted."""
_WORSE = (*RED, GateDecision.ACCEPTED)
_NAMED = 40
"""Number of cells of one kind that are listed; the others are in the list of all cells."""


def night_part(summary: SessionSummary, night: NightReport, facts: Markup) -> Markup:
    """Return the gate status, and below it the cells that need attention, with troubles and warnings.

    `facts` say where and how it was measured, and what to do next.
    """
    names = Names(summary.records)
    parts = [_light(night, names), _counts(night), facts]
    for title, decisions in groupby(RANK, lambda decision: _TITLES.get(decision, capital(decision.value))):
        cells = night.with_decision(*decisions)
        if title and cells:
            parts += [element("h2", f"{title} ({len(cells)})"), _cells(cells, names, summary)]
    if night.troubles:
        parts += [element("h2", f"Items with other trouble ({len(night.troubles)})"), _troubles(night)]
    if night.warnings:
        parts += [element("h2", "Warnings"), bullets(map(capital, night.warnings))]
    if night.notes:
        parts += [element("h2", "Over all nights"), bullets(map(capital, night.notes))]
    return element("section", *parts, class_="night")


def _light(night: NightReport, names: Names) -> Markup:
    class_ = gate_status_class(night.gate_status)
    light = element("span", shape(class_), night.gate_status.word, class_="light")
    headline = night.headline.removeprefix(f"{night.gate_status.word}: ")
    # The cells that the headline names are listed below, with their figures; the worst has them here too.
    first, *others = (part.partition(": ")[0] for part in headline.split("; "))
    first += _worst(night, names)
    more = [element("p", f"{capital('; '.join(others))}.")] if others else []
    note = note_on_change(first, (cell.record for cell in night.cells if cell.record))
    more += [element("p", f"{note}.", class_="soft")] if note else []
    exit_status = element("p", f"Exit status {night.gate_status.value}. {_levels(night)}", class_="soft")
    return element(
        "div", element("h1", light, " ", unbroken(capital(first))), *more, exit_status, class_=f"banner {class_}"
    )


def _worst(night: NightReport, names: Names) -> str:
    """Return the figures of the worst cell that the headline begins with; empty if it begins with something else."""
    if night.gate_status is GateStatus.UNSTABLE:
        return ""
    cells = night.with_decision(GateDecision.EXCEEDS) or night.with_decision(GateDecision.WORSE)
    chosen = [cell for cell in cells if not cell.is_beside] or cells
    records = [cell.record for cell in chosen if cell.record]
    if not records:
        return ""
    return f"{', worst' if len(cells) > 1 else ':'} {figures_of(max(records, key=worse_by), names)}"


def _levels(night: NightReport) -> str:
    family, history = f"{100 * night.family_alpha:.3g} %", f"{100 * night.history_alpha:.3g} %"
    twins = " Twins of the reference are not counted." if night.aa_check else ""
    return (
        f"Flagged cells were measured again and decided by these fresh data at {family} for all of them "
        f"together (Holm); against their last nights at {history}.{twins}"
    )


def _counts(night: NightReport) -> Markup:
    badges = [
        badge(f"{count} {decision.value}", decision_class(decision))
        for decision in RANK
        if (count := len(night.with_decision(decision)))
    ]
    return joined((element("p", *badges, class_="counts"), _aa_check(night)))


def _aa_check(night: NightReport) -> Markup:
    return aa_check_line(night.aa_check)


def aa_check_line(found: AACheck | None) -> Markup:
    """Return the result of the A/A check."""
    return element(
        "p", unbroken(f"{aa_check_text(found)}."), class_="warning" if found and not found.stable else "soft"
    )


def _cells(cells: Sequence[CellReport], names: Names, summary: SessionSummary) -> Markup:
    items = [
        joined(
            (
                badge(cell.decision.value, decision_class(cell.decision)),
                " ",
                _name(cell, names),
                f": {cell.sentence}",
                _since(cell, summary),
            )
        )
        for cell in cells[:_NAMED]
    ]
    if len(cells) > _NAMED:
        items.append(
            joined((f"and {len(cells) - _NAMED} more, in the list of ", element("a", "all cells", href="#cells")))
        )
    return bullets(items, class_="said")


def _since(cell: CellReport, summary: SessionSummary) -> Markup:
    """Return since when a worse cell is worse."""
    if cell.record is None or cell.decision not in _WORSE:
        return NOTHING
    text = unbroken(since_text(cell.record, summary, cell.decision))
    return element("p", element("b", "Since when: "), f"{text}.", class_="since")


def _name(cell: CellReport, names: Names) -> Markup:
    """Return the cell in words with its values, if it was measured, and its text."""
    text, target = element("code", cell.key.cell), f"#{anchor(cell.key)}"
    metric = cell.key.metric.replace("_", " ")
    if cell.record is None:
        return joined((element("a", text, href=target), f" {metric}"))
    link = element("a", element("b", names.cell(cell.record)), href=target)
    return joined((link, f", {arrow_text(cell.record)} (", text, f" {metric})"))


def _troubles(night: NightReport) -> Markup:
    return bullets(
        (joined((element("code", nodeid), f": {sentence}")) for nodeid, sentence in night.troubles.items()),
        most=_NAMED,
        class_="said",
    )
