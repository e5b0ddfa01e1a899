"""Reading a session's records back: what is whole in them, however the session ended.

A journal is read up to its first line that is none: the rest of a line is what a killed session may leave, and zeros
are what a loss of power may. What the samples of a workload lack makes it incomplete.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.store.migration import Facts, check_schema, migrated

_KEYS = {
    "session": {"at", "schema", "seed"},
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


def read_session(folder: Path) -> KeptSession:
    """All of a session; UsageError naming the folder where there is none, or one of another schema."""
    if not folder.is_dir():
        raise UsageError(f"session {folder} is not there")
    journals = {path: list(events(path)) for path in sorted(folder.glob("*.jsonl"))}
    sessions = [event for told in journals.values() for event in told if event["event"] == "session"]
    if not sessions:
        raise UsageError(f"session {folder} has no records: no journal in it begins with an event 'session'")
    first = min(sessions, key=lambda event: float(event["at"]))  # each process says when it began itself
    schema = check_schema(first["schema"], str(folder))
    journals = {path: [migrated(event, schema) for event in told] for path, told in journals.items()}
    workloads: dict[str, KeptWorkload] = {}
    taken_over: dict[str, Path] = {}
    for path, told in journals.items():
        for name, found in _workloads(path, told).items():
            if found.complete or name not in workloads:  # a worker that died left its share to another
                workloads[name] = found
        taken_over |= {each["workload"]: Path(each["folder"]) for each in told if each["event"] == "taken"}
    for name in {each["workload"] for told in journals.values() for each in told if each["event"] == "anew"}:
        taken_over.pop(name, None)  # each process says what is to be taken over, and only one finds that it cannot be
    return KeptSession(folder, migrated(first, schema), workloads, taken_over)


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


def _workloads(path: Path, told: Sequence[Facts]) -> dict[str, KeptWorkload]:
    found: dict[str, KeptWorkload] = {}
    for event in told:
        name, kind = event.get("workload", ""), event["event"]
        if kind == "workload":
            found[name] = KeptWorkload(path.with_suffix(".f64"), event)
        elif name not in found:
            continue
        elif kind in ("epoch", "run", "floor"):
            {"epoch": found[name].epochs, "run": found[name].runs, "floor": found[name].floors}[kind].append(event)
        elif kind == "complete":
            found[name].complete.update(event)
        elif kind == "broken":
            found[name].broken.append(event["sentence"])
    return found
