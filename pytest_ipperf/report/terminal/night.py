"""Print a night: the cells that need attention, then the gate's answer."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pytest_ipperf.core.nightly.report import RANK, CellReport, GateDecision, NightReport

_MOST = 20
_INDENT = "    "


def lines(report: NightReport, width: int | None = None) -> list[str]:
    """Return the night as lines of at most `width` characters."""
    found = [
        line
        for decision in RANK
        if decision is not GateDecision.WITHIN
        for line in _group(decision, report.with_decision(decision))
    ]
    calmed = [cell for cell in report.cells if cell.flagged and cell.decision is GateDecision.WITHIN]
    found += _listed("flagged, and not confirmed", calmed)
    found += [f"warning: {each}" for each in report.warnings]
    found += report.notes
    if twins := report.aa_check:
        cells = f"{twins.cells} cell{'s' * (twins.cells != 1)}"
        found.append(f"A/A: in {twins.excludes} of {cells} the reference differs from its twin; {twins.chance}")
    found += [f"trouble: {nodeid}: {sentence}" for nodeid, sentence in report.troubles.items()]
    return [line for each in (*found, report.headline) for line in _wrapped(each, width)]


def _group(decision: GateDecision, cells: tuple[CellReport, ...]) -> list[str]:
    return _listed(decision.value, cells)


def _listed(title: str, cells: tuple[CellReport, ...] | list[CellReport]) -> list[str]:
    lines = [f"{title}: {cell.key}: {cell.sentence}" for cell in cells[:_MOST]]
    return lines + ([f"{title}: {len(cells) - _MOST} more"] if len(cells) > _MOST else [])


def _wrapped(line: str, width: int | None) -> Iterator[str]:
    if width is None:
        yield line
    else:
        yield from textwrap.wrap(line, max(width, 40), subsequent_indent=_INDENT, break_on_hyphens=False)
