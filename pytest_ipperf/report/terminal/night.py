"""Print a night: the cells that need attention, then the gate's answer."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from pytest_ipperf.core.nightly.report import RANK, RED, CellReport, GateDecision, NightReport
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.answer.aa_check import aa_check_finding
from pytest_ipperf.report.answer.since import since_text

_MOST = 20
_INDENT = "    "


def lines(report: NightReport, width: int | None = None, summary: SessionSummary | None = None) -> list[str]:
    """Return the night as lines of at most `width` characters; with its `summary` also since when cells are worse."""
    found = [
        line
        for decision in RANK
        if decision is not GateDecision.WITHIN
        for line in _listed(decision.value, report.with_decision(decision), summary)
    ]
    calmed = [cell for cell in report.cells if cell.flagged and cell.decision is GateDecision.WITHIN]
    found += _listed("flagged, and not confirmed", calmed, None)
    found += [f"warning: {each}" for each in report.warnings]
    found += report.notes
    if twins := report.aa_check:
        found.append(aa_check_finding(twins))
    found += [f"trouble: {nodeid}: {sentence}" for nodeid, sentence in report.troubles.items()]
    return [line for each in (*found, report.headline) for line in _wrapped(each, width)]


def _listed(title: str, cells: Sequence[CellReport], summary: SessionSummary | None) -> list[str]:
    lines = [f"{title}: {cell.key}: {cell.sentence}{_since(cell, summary)}" for cell in cells[:_MOST]]
    return lines + ([f"{title}: {len(cells) - _MOST} more"] if len(cells) > _MOST else [])


def _since(cell: CellReport, summary: SessionSummary | None) -> str:
    if summary is None or cell.record is None or cell.decision not in (*RED, GateDecision.ACCEPTED):
        return ""
    return f"; {since_text(cell.record, summary, cell.decision)}"


def _wrapped(line: str, width: int | None) -> Iterator[str]:
    if width is None:
        yield line
    else:
        yield from textwrap.wrap(line, max(width, 40), subsequent_indent=_INDENT, break_on_hyphens=False)
