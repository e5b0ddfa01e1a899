"""Summarise one session for reports, from its records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import CONFIRMING
from pytest_ipperf.core.nightly.report import NightReport
from pytest_ipperf.core.records.completeness import UNMEASURED, WHOLE, Completeness
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.measured_run import MeasuredRun
from pytest_ipperf.core.records.record import Record

WHOLE_SESSION = "pytest"
"""Name of the session as a whole among its troubles."""
UNEXPLAINED = (
    "it ended with status 1, for a test that measures nothing or by --ipperf-inconclusive=fail; see its output"
)
_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An item without an answer, or `WHOLE_SESSION` if no result of the session explains that it failed.

    `kind` is `inconclusive` (the budget was spent), `invalid`, `infrastructure`, `failed` for another reason than its
    margin, or `unmeasured` if the session did not reach it.
    """

    nodeid: str
    kind: str
    sentence: str


def unexplained(status: int | None, records: Iterable[Record], troubles: Iterable[Trouble]) -> tuple[Trouble, ...]:
    """Return the trouble of a session that failed although none of its results did; empty for any other."""
    red = any(record.verdict in ("exceeds", "invalid") for record in records)
    if status != _FAILED or red or any(each.kind not in ("inconclusive", UNMEASURED) for each in troubles):
        return ()
    return (Trouble(nodeid=WHOLE_SESSION, kind="failed", sentence=UNEXPLAINED),)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSummary:
    """Facts of the host in one role of a testbed, from its fingerprint.

    `name` and measured `addresses` are those of the inventory, empty if they were not kept.
    """

    testbed: str
    role: str
    name: str = ""
    addresses: tuple[str, ...] = ()
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session: its question, its answers, and the hosts that it was measured with.

    `name` is that of its `folder`. The session began at `began_at`, lasted `seconds` and ended with pytest's `status`
    (both None if it did not end in order). `question` holds the facts of its event `session` (docs/records.md).
    `samples` holds one column of all runs that count, by workload and arm: seconds of connections or replies, infinite
    for each failure; empty for workloads that keep none. `run_times` holds when each run that counts began, in seconds
    since 1970 and in the order of measurement, by workload and arm. In both, fresh epochs have names of their own
    (`measured_as`). `provisional` holds the values of the runs of workloads that have no answer yet, by workload, arm
    and metric. `runs` are all runs that count, read at each iteration. `histories` holds the earlier sessions of each
    key, oldest first. `night` is the report of the night whose screening this session is. `saved` is the name under
    which it was saved, empty if it was not. `completeness` says whether the session is complete; items that an
    incomplete one did not reach are among the `troubles`.
    """

    name: str
    folder: Path
    began_at: float
    seconds: float | None
    question: Mapping[str, Any]
    records: tuple[Record, ...]
    troubles: tuple[Trouble, ...] = ()
    hosts: tuple[HostSummary, ...] = ()
    samples: Mapping[tuple[str, Arm], Sequence[float]] = field(default_factory=dict)
    run_times: Mapping[tuple[str, Arm], Sequence[float]] = field(default_factory=dict)
    provisional: Mapping[tuple[str, Arm, str], Sequence[float]] = field(default_factory=dict)
    runs: Iterable[MeasuredRun] = ()
    histories: Mapping[HistoryKey, Sequence[HistoryEntry]] = field(default_factory=dict)
    night: NightReport | None = None
    saved: str = ""
    notes: tuple[str, ...] = ()
    status: int | None = None
    completeness: Completeness = WHOLE

    def measured_as(self, record: Record) -> str:
        """Return the name under which `samples` and `run_times` have the runs that gave the record.

        It is the workload's text, or the name of its fresh epochs with the record's arm, if these decided.
        """
        if record.confirms is None:
            return record.workload
        names = (name for name, arm in (*self.samples, *self.run_times) if arm == record.test.arm)
        return next((name for name in names if name.startswith(f"{record.workload}{CONFIRMING}")), "")
