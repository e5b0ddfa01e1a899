"""Summarise one session for reports, from its records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_ipperf.core.nightly.report import NightReport
from pytest_ipperf.core.records.completeness import WHOLE, Completeness
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An item without an answer.

    `kind` is `inconclusive` (the budget was spent), `invalid`, `infrastructure`, `failed` for another reason than its
    margin, or `unmeasured`: the session has not come to it.
    """

    nodeid: str
    kind: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSummary:
    """What the fingerprint of a testbed's host in that role says, fact by fact.

    `name` and measured `addresses` are those of the inventory, empty where they were not kept.
    """

    testbed: str
    role: str
    name: str = ""
    addresses: tuple[str, ...] = ()
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session: its question, its answers, and what it was measured with.

    `name` is that of its `folder`; it began at `began_at`, lasted `seconds` and ended with pytest's `status` (both None
    where it did not end in order).
    `question` holds the facts of its event `session` (docs/records.md). `samples` are those of one column of all runs
    that count, by workload and arm: seconds of connections or replies, infinite for each that failed; empty for what
    keeps none. `histories` are the earlier sessions of a key, the oldest first. `night` is the report of the night of
    which it is the screening. `saved` is the name under which it was saved, empty where it was not. `completeness`
    tells whether it is whole; of one that is not, the items that it has not come to are among the `troubles`.
    """

    name: str
    folder: Path
    began_at: float
    seconds: float | None
    question: Mapping[str, Any]
    records: tuple[Record, ...]
    troubles: tuple[Trouble, ...] = ()
    hosts: tuple[HostSummary, ...] = ()
    samples: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    histories: Mapping[HistoryKey, Sequence[HistoryEntry]] = field(default_factory=dict)
    night: NightReport | None = None
    saved: str = ""
    notes: tuple[str, ...] = ()
    status: int | None = None
    completeness: Completeness = WHOLE
