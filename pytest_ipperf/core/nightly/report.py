"""Report of a night: the gate's decision about every cell, and its status.

`core/nightly/gate.py` has the rules; this module has the wording, which reports, verdict file and exit status share.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.nightly.aa_check import AACheck
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record


class GateDecision(enum.Enum):
    """The gate's decision about a cell; the value is its wording."""

    WITHIN = "within"
    EXCEEDS = "exceeds, confirmed"
    WORSE = "worse than its history"
    ACCEPTED = "worse, and accepted"
    INCONCLUSIVE = "inconclusive"
    UNJUDGED = "unjudged"
    MISSING = "no longer measured"
    GONE = "no longer measured, and accepted"
    TROUBLE = "not measured: trouble"


RED = frozenset({GateDecision.EXCEEDS, GateDecision.WORSE})
"""Decisions that are regressions."""


RANK = (
    GateDecision.EXCEEDS,
    GateDecision.WORSE,
    GateDecision.MISSING,
    GateDecision.TROUBLE,
    GateDecision.ACCEPTED,
    GateDecision.GONE,
    GateDecision.INCONCLUSIVE,
    GateDecision.UNJUDGED,
    GateDecision.WITHIN,
)
"""Decisions in the order in which a reader wants them."""


class GateStatus(enum.IntEnum):
    """The gate's status for a whole night; the value is the exit status."""

    GREEN = 0
    RED = 1
    NOTHING_DECIDED = 10
    UNSTABLE = 11
    SHRUNK = 12

    @property
    def word(self) -> str:
        """Wording of the status."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReport:
    """One cell of a night by one metric.

    `screen` is the cell's record in the screening, `fresh` the second one of a flagged cell; a missing cell has
    neither. `p_fresh` is the one-sided p-value of the fresh data, `p_adjusted` the same by Holm over all flagged cells;
    `p_history` and `p_history_adjusted` are those against the cell's last `nights` nights. `sentence` describes the
    decision. `is_beside` is set if it is about what is asked beside the metric of a cell, such as its failed
    connections, and so is no cell of its own.
    """

    key: HistoryKey
    decision: GateDecision
    sentence: str
    screen: Record | None = None
    fresh: Record | None = None
    flagged: bool = False
    p_fresh: float | None = None
    p_adjusted: float | None = None
    p_history: float | None = None
    p_history_adjusted: float | None = None
    nights: int = 0
    is_beside: bool = False

    @property
    def record(self) -> Record | None:
        """The data that the decision is about."""
        return self.fresh or self.screen


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """All cells, the A/A check if the reference had a twin, and items that failed for another reason than their margin.

    `quiet` are the tails and limits beside a cell's metric that are well: reports leave them out, and the next night
    expects them as it expects the cells. `family_alpha` is the level of the fresh data over all flagged cells,
    `history_alpha` that against history. `warnings` are sentences for the reader that do not affect the status, such as
    changed hosts, and `notes` those on the nights together, such as how rare an outage can have been missed.
    """

    cells: tuple[CellReport, ...]
    aa_check: AACheck | None
    troubles: Mapping[str, str]
    gate_status: GateStatus
    headline: str
    family_alpha: float
    history_alpha: float
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    quiet: tuple[CellReport, ...] = ()

    def with_decision(self, *decisions: GateDecision) -> tuple[CellReport, ...]:
        """Return the cells with one of these decisions."""
        return tuple(cell for cell in self.cells if cell.decision in decisions)


def cell_of(nodeid: str, cells: Iterable[str]) -> str:
    """Return the cell that a node id contains, or an empty string; other parameters may surround it.

    The text of one cell may be the beginning of another's, so the longest match is returned.
    """
    matches = (cell for cell in cells if cell in nodeid and re.search(rf"[\[-]{re.escape(cell)}[-\]]", nodeid))
    return max(matches, key=len, default="")
