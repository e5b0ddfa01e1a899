"""Read a session's event logs back, however the session ended.

An event log is read up to its first invalid line. A partial line at its end is what a killed session may leave, and
zeros are what a power failure may leave; anything else is damage. Missing samples make a workload incomplete.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store.log import validators as valid
from pytest_ipperf.store.log.events import Event, ReadPosition, read_events, read_kind
from pytest_ipperf.store.log.migration import Facts
from pytest_ipperf.store.packed_facts import PackedFacts

_ANSWERS = frozenset({"plan", "record", "undecided", "trouble", "note", "end"})
_SHORT = {
    "workload": ("workload", "confirms"),
    "epoch": ("server", "fingerprint"),
    "run": (
        "arm", "warmup", "columns", "rows", "offset", "samples_crc32", "failed", "began_at", "values",
    ),
    "floor": (),
    "complete": ("workload", "testbed"),
}  # fmt: skip
"""Keys kept in short form, by kind of event: of runs, time, values, and place of their samples."""


@dataclass(frozen=True, slots=True)
class StoredWorkload:
    """Events of one process about a workload, since it last began it; each fact is as in the event.

    `complete` is empty if the workload was broken off; `broken` then holds the reason, if one was logged. `others` are
    its reboots and interface counters, each with the kind of its event.
    """

    samples_file: Path
    workload_event: Facts
    epochs: list[Facts] = field(default_factory=list)
    runs: list[Facts] | PackedFacts = field(default_factory=list)
    baseline_costs: list[Facts] = field(default_factory=list)
    complete: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    others: list[tuple[str, Facts]] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Return whether the samples of all runs are there."""
        size = self.samples_file.stat().st_size if self.samples_file.is_file() else 0
        return all(run["offset"] + _packed_bytes(run) <= size for run in self.runs)

    def samples(self) -> Iterator[array[float]]:
        """Iterate over the samples of each run, row after row, each row with a value for every one of its `columns`.

        The workload must be `whole`; raises DamageError if the samples are not those that were written.
        """
        with open_samples(self.samples_file) as file:
            for run in self.runs:
                yield read_run_samples(file, self.samples_file, run)


def open_samples(path: Path) -> BinaryIO:
    """Open a samples file; DamageError if it is gone or cannot be read."""
    try:
        return path.open("rb")
    except OSError as error:
        raise DamageError(f"samples: {path} cannot be read ({error.strerror})") from None


def read_run_samples(file: BinaryIO, path: Path, run: Facts) -> array[float]:
    """Return the samples of a run from the open samples file at `path`; see `StoredWorkload.samples`."""
    file.seek(run["offset"])
    packed = file.read(_packed_bytes(run))
    if len(packed) != _packed_bytes(run) or run.get("samples_crc32", crc32(packed)) != crc32(packed):
        place = f"{path} from byte {run['offset']} on"
        raise DamageError(f"samples: {place} is damaged: these are not the samples that were written")
    return array("d", packed)


def _packed_bytes(run: Facts) -> int:
    return int(8 * len(run["columns"]) * run["rows"])


@dataclass(frozen=True, slots=True)
class StoredSession:
    """The content of a session's folder: its question, its workloads, and the folders of workloads that it reused.

    `begun` has the folders of those with which it was to go on.

    `partial_line` says that one of its event logs ends in a partial line.
    """

    folder: Path
    facts: Facts
    workloads: Mapping[str, StoredWorkload]
    reused: Mapping[str, Path]
    begun: Mapping[str, Path] = field(default_factory=dict)
    partial_line: bool = False

    @property
    def name(self) -> str:
        """The session's name, which is its folder's."""
        return self.folder.name


def read_session(
    folder: Path, *, answers: list[Event] | None = None, short: bool = False, damage: list[str] | None = None
) -> StoredSession:
    """Return a whole session; UsageError naming the folder if there is none, or its schema is not supported.

    Raises DamageError if an event log has an invalid line, or is missing although the session has ended. If `damage` is
    a list, it receives the sentence instead, and everything before the damage is returned, if there is anything.
    `answers` receives its plans, records, troubles, notes and ends, in the current schema. With `short`, events of
    workloads keep only the keys in `_SHORT`, runs are packed, and records are kept without their facts, as there may be
    very many; each event log is read once.
    """
    if not folder.is_dir():
        raise UsageError(f"session {folder} is not there")
    reader = _SessionReader([] if answers is None else answers, short=short)
    errors: list[DamageError] = []
    try:
        paths = event_logs_in(folder)
    except OSError as error:
        raise not_listed(folder, error) from None
    for path in paths:
        try:
            reader.read_log(path)
        except DamageError as error:
            errors.append(error)
    errors += missing(folder, reader.files)
    if errors and (damage is None or not reader.sessions):
        raise errors[0]
    if not reader.sessions:
        raise UsageError(f"session {folder} has no records: no event log in it begins with an event 'session'")
    if damage is not None:
        damage += map(str, errors)
    # Each process logs its own start.
    first = min(reader.sessions, key=lambda event: float(event["at"]))
    return StoredSession(folder, first, reader.workloads, reader.reused, reader.begun, reader.partial_line)


def records_in(folder: Path) -> list[Record]:
    """Return the records of a session's folder, wherever it is; raises as `read_session` does, also for damage."""
    answers: list[Event] = []
    read_session(folder, answers=answers, short=True)
    return [event.record for event in answers if event.record is not None]


def times_in(folder: Path) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Iterate over the ledger of a session: a workload, or "" for none, and seconds by activity.

    Only lines of the ledger are parsed, as an event log may be large; raises as `read_events` does for them.
    """
    for path in event_logs_in(folder):
        for facts in read_kind(path, "time"):
            yield facts.get("workload", ""), facts["seconds"]


def event_logs_in(folder: Path) -> list[Path]:
    """Return a session's event logs by name; OSError if its folder cannot be listed.

    A file whose name is not UTF-8 is not an event log: writers are `main` and the workers of xdist.
    """
    return sorted(path for path in folder.iterdir() if path.suffix == ".jsonl" and valid.key(path.name))


def not_listed(folder: Path, error: OSError) -> DamageError:
    """Return the error of a session whose folder exists and cannot be listed."""
    return DamageError(f"session {folder.name}: {folder} cannot be read ({error.strerror})")


def missing(folder: Path, files: Mapping[str, int]) -> list[DamageError]:
    """Return an error for each event log that is gone, or shorter than its size in `files` when the session ended."""
    lost = []
    for name, size in files.items():
        path = folder / name
        now = path.stat().st_size if path.is_file() else 0
        if path.suffix == ".jsonl" and now < size:
            lost.append(
                DamageError(
                    f"session {folder.name}: {name} is damaged ({now} bytes of {size}); put back a copy of "
                    "the file, or clear the session out"
                )
            )
    return lost


class _SessionReader:
    """Reader of a session's event logs, one after another, event by event."""

    def __init__(self, answers: list[Event], *, short: bool) -> None:
        self._answers, self._short = answers, short
        self._last: dict[tuple[str, str], Any] = {}
        self._anew: set[str] = set()
        self._taken: dict[str, Path] = {}
        self.begun: dict[str, Path] = {}
        self.partial_line = False
        self.files: dict[str, int] = {}
        self.sessions: list[Facts] = []
        self.workloads: dict[str, StoredWorkload] = {}

    @property
    def reused(self) -> dict[str, Path]:
        """Folders of reused workloads, except those that any process had to measure again."""
        return {name: folder for name, folder in self._taken.items() if name not in self._anew}

    def read_log(self, path: Path) -> None:
        """Read an event log as far as possible; DamageError if that is not to its end."""
        workloads: dict[str, StoredWorkload] = {}
        place = ReadPosition()
        try:
            for event in read_events(path, place):
                self._apply(event, workloads, path)
        finally:
            self.partial_line |= place.partial_line
            for name, workload in workloads.items():
                if (
                    workload.complete or name not in self.workloads
                ):  # another worker may have taken over a dead worker's share
                    self.workloads[name] = workload

    def _apply(self, event: Event, workloads: dict[str, StoredWorkload], path: Path) -> None:
        kind, facts = event.kind, event.facts
        if kind in _ANSWERS:
            self._answers.append(replace(event, facts={}) if self._short and event.record else event)
            if kind == "end":
                self.files.update(facts.get("files", {}))
        elif kind == "session":
            self.sessions.append(facts)
        elif kind == "taken":
            self._taken[facts["workload"]] = Path(facts["folder"])
        elif kind == "begun":
            self.begun[facts["workload"]] = Path(facts["folder"])
        elif kind == "anew":
            self._anew.add(facts["workload"])
        elif kind == "workload":
            runs: list[Facts] | PackedFacts = PackedFacts() if self._short else []
            workloads[facts["workload"]] = StoredWorkload(path.with_suffix(".f64"), self._kept(kind, facts), runs=runs)
        elif facts.get("workload") in workloads:
            self._add(workloads[facts["workload"]], kind, facts)

    def _add(self, workload: StoredWorkload, kind: str, event: Facts) -> None:
        if kind == "epoch":
            workload.epochs.append(self._kept(kind, event))
        elif kind == "run":
            workload.runs.append(self._kept(kind, event))
        elif kind == "floor":
            workload.baseline_costs.append(self._kept(kind, event))
        elif kind == "complete":
            workload.complete.update(self._kept(kind, event))
            if isinstance(workload.runs, PackedFacts):
                workload.runs.pack()
        elif kind == "broken":
            workload.broken.append(event["sentence"])
        elif kind in ("reboot", "counters") and not self._short:
            workload.others.append((kind, event))

    def _kept(self, kind: str, event: Facts) -> Facts:
        """Return what is kept of an event; in short form its values are those of the event before, where equal."""
        if not self._short:
            return event
        kept = {name: event[name] for name in _SHORT[kind] if name in event}
        for name, value in kept.items():
            if isinstance(value, dict | list):
                before = self._last.setdefault((kind, name), value)
                kept[name] = self._last[kind, name] = before if before == value else value
        return kept
