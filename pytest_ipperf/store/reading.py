"""Reading a session's records back: what is whole in them, however the session ended.

A journal is read up to its first line that is none: the rest of a line is what a killed session may leave, and zeros
are what a loss of power may. What the samples of a workload lack makes it incomplete.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.store.migration import Facts, check_schema, migrated

_KEYS = {
    "session": {"at", "schema", "seed"},
    "plan": {"items"},
    "taken": {"workload", "folder"},
    "anew": {"workload"},
    "workload": {"workload", "order"},
    "run": {"workload", "offset", "rows", "columns"},
    "complete": {"workload"},
    "broken": {"workload", "sentence"},
    "record": {"cell", "metric", "test", "reference"},
    "undecided": {"nodeid", "sentence"},
    "trouble": {"nodeid", "kind", "sentence"},
    "end": {"status", "seconds"},
}
"""What an event that is read here must have; one that lacks it is none."""
_ANSWERS = frozenset({"plan", "record", "undecided", "trouble", "note", "end"})
_SHORT = ("arm", "warmup", "columns", "rows", "offset", "failed", "server", "fingerprint")
"""Of runs where their samples lie and whose they are, of epochs what they were measured with."""


@dataclass(frozen=True, slots=True)
class KeptWorkload:
    """What one process wrote of a workload, since it last began it; each fact as the event has it.

    `complete` is empty where the workload was broken off, `broken` says how if it was in order.
    """

    packed: Path
    begun: Facts
    epochs: list[Facts] = field(default_factory=list)
    runs: list[Facts] = field(default_factory=list)
    floors: list[Facts] = field(default_factory=list)
    complete: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether the samples of all runs are there."""
        size = self.packed.stat().st_size if self.packed.exists() else 0
        return all(run["offset"] + _packed_bytes(run) <= size for run in self.runs)

    def samples(self) -> Iterator[array[float]]:
        """The samples of each run, its rows one after another, each with a value for every one of its `columns`."""
        with self.packed.open("rb") as file:
            for run in self.runs:
                file.seek(run["offset"])
                yield array("d", file.read(_packed_bytes(run)))


def _packed_bytes(run: Facts) -> int:
    return int(8 * len(run["columns"]) * run["rows"])


@dataclass(frozen=True, slots=True)
class KeptSession:
    """What a session's folder holds: its question, its workloads, and the folders of what it took over itself."""

    folder: Path
    facts: Facts
    workloads: Mapping[str, KeptWorkload]
    taken_over: Mapping[str, Path]

    @property
    def name(self) -> str:
        """The session's name, which is its folder's."""
        return self.folder.name


def read_session(folder: Path, *, answers: list[Facts] | None = None, short: bool = False) -> KeptSession:
    """All of a session; UsageError naming the folder where there is none, or one of another schema.

    `answers` gains its plans, records, troubles, notes and ends, as they were written. Where it is to be `short`, runs
    and epochs have only what `_SHORT` names: there may be very many, and each journal is read once.
    """
    if not folder.is_dir():
        raise UsageError(f"session {folder} is not there")
    journals = sorted(folder.glob("*.jsonl"))
    known = next((event for path in journals for event in events(path) if event["event"] == "session"), None)
    if known is None:
        raise UsageError(f"session {folder} has no records: no journal in it begins with an event 'session'")
    reading = _Reading(check_schema(known["schema"], str(folder)), [] if answers is None else answers, short=short)
    for path in journals:
        reading.journal(path)
    # Each process says when it began itself.
    first = min(reading.sessions, key=lambda event: float(event["at"]))
    return KeptSession(folder, first, reading.workloads, reading.taken_over)


class _Reading:
    """The journals of a session on their way, one after another, event by event."""

    def __init__(self, schema: int, answers: list[Facts], *, short: bool) -> None:
        self._schema, self._answers, self._short = schema, answers, short
        self._columns: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._anew: set[str] = set()
        self._taken: dict[str, Path] = {}
        self.sessions: list[Facts] = []
        self.workloads: dict[str, KeptWorkload] = {}

    @property
    def taken_over(self) -> dict[str, Path]:
        """Each process says what is to be taken over, and only one finds that it cannot be."""
        return {name: folder for name, folder in self._taken.items() if name not in self._anew}

    def journal(self, path: Path) -> None:
        """All of one."""
        found: dict[str, KeptWorkload] = {}
        for event in events(path):
            kind = event["event"]
            if kind in _ANSWERS:
                self._answers.append(event)
            elif kind == "session":
                self.sessions.append(migrated(event, self._schema))
            elif kind == "taken":
                self._taken[event["workload"]] = Path(event["folder"])
            elif kind == "anew":
                self._anew.add(event["workload"])
            elif kind == "workload":
                found[event["workload"]] = KeptWorkload(path.with_suffix(".f64"), migrated(event, self._schema))
            elif event.get("workload") in found:
                self._add(found[event["workload"]], kind, migrated(event, self._schema))
        for name, workload in found.items():
            if workload.complete or name not in self.workloads:  # a worker that died left its share to another
                self.workloads[name] = workload

    def _add(self, workload: KeptWorkload, kind: str, event: Facts) -> None:
        if kind in ("epoch", "run", "floor"):
            {"epoch": workload.epochs, "run": workload.runs, "floor": workload.floors}[kind].append(
                self._shortened(event) if self._short else event
            )
        elif kind == "complete":
            workload.complete.update(event)
        elif kind == "broken":
            workload.broken.append(event["sentence"])

    def _shortened(self, event: Facts) -> Facts:
        told = {name: event[name] for name in _SHORT if name in event}
        if "columns" in told:  # all runs have the same few
            columns = tuple(told["columns"])
            told["columns"] = self._columns.setdefault(columns, columns)
        return told


def events(path: Path) -> Iterator[Facts]:
    """The events of a journal up to its end, or to the first line that is not one."""
    with path.open("rb") as file:
        for line in file:
            event = parsed(line)
            if event is None:
                return
            yield event


def parsed(line: bytes) -> Facts | None:
    """The event of a journal's line; None where it is none."""
    try:
        found = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        return None
    return found if _KEYS.get(found["event"], set()) <= found.keys() else None
