"""Report of a night: the gate's decision about every cell, and its status.

The rules are those of `core/nightly/gate.py`; here are the words, which reports, verdict file and exit status share.
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

    WITHIN = "within margin"
    EXCEEDS = "exceeds margin, confirmed"
    WORSE = "worse than its history"
    ACCEPTED = "worse, and accepted"
    INCONCLUSIVE = "not enough evidence"
    UNJUDGED = "unjudged"
    MISSING = "no longer measured"
    GONE = "no longer measured, and accepted"
    TROUBLE = "not measured: trouble"


RED = frozenset({GateDecision.EXCEEDS, GateDecision.WORSE})
"""The decisions that are regressions."""


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
"""The order in which a reader wants them."""


class GateStatus(enum.IntEnum):
    """The gate's status for a whole night; the value is the exit status."""

    GREEN = 0
    RED = 1
    NOTHING_DECIDED = 10
    UNSTABLE = 11
    SHRUNK = 12

    @property
    def word(self) -> str:
        """Its wording."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReport:
    """One cell of a night by one metric.

    `screen` is what all cells were measured for, `fresh` the second measurement of one that was flagged; without either
    it is missing. `p_fresh` is the one-sided p-value of the fresh data, `p_adjusted` that by Holm over all that were
    flagged; `p_history` and `p_history_adjusted` the same against its last `nights` nights. `sentence` says it in
    words.
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

    @property
    def record(self) -> Record | None:
        """The data that the decision is about."""
        return self.fresh or self.screen


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """All cells, the A/A check if the reference had a twin, and items that failed or broke for another reason.

    `family_alpha` is the level of the fresh data over all flagged cells, `history_alpha` that against history.
    `warnings` are sentences about what a reader should know and that decide nothing, such as changed hosts.
    """

    cells: tuple[CellReport, ...]
    aa_check: AACheck | None
    troubles: Mapping[str, str]
    gate_status: GateStatus
    headline: str
    family_alpha: float
    history_alpha: float
    warnings: tuple[str, ...] = ()

    def with_decision(self, *decisions: GateDecision) -> tuple[CellReport, ...]:
        """Return the cells with one of these decisions."""
        return tuple(cell for cell in self.cells if cell.decision in decisions)


def cell_of(nodeid: str, cells: Iterable[str]) -> str:
    """Which of the cells is the one of an item, else nothing; other parameters may stand before it and after it.

    The text of one cell may be the beginning of another's: the longest is meant.
    """
    found = (cell for cell in cells if cell in nodeid and re.search(rf"[\[-]{re.escape(cell)}[-\]]", nodeid))
    return max(found, key=len, default="")
