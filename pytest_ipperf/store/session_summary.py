"""Read the summary of a session from its folder, for reports made then or years later."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ipperf.core.design.cell import Arm, testbed_of
from pytest_ipperf.core.nightly.session_summary import HostSummary, SessionSummary, Trouble, unexplained
from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.core.records.completeness import UNMEASURED, Completeness, SessionState, completeness_of, state_of
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store.log.event_log import is_being_written
from pytest_ipperf.store.log.events import Event
from pytest_ipperf.store.log.migration import tells_end
from pytest_ipperf.store.measured_runs import MeasuredRuns
from pytest_ipperf.store.session_reader import StoredSession, StoredWorkload, read_session

_TIMES = ("total", "rtt_s")
"""Columns whose distribution is shown; other samples are no times of single connections or replies."""


def read_session_summary(
    folder: Path,
    *,
    resume: str = "",
    running: bool | None = None,
    damage: list[str] | None = None,
) -> SessionSummary:
    """Read the summary of a session's folder; raises as `read_session` does, and passes `damage` on to it.

    `resume` is the value of `--ipperf-resume` that resumes the session, by default its folder. `running` is determined
    by open event logs unless it is given, as the session itself must do.
    """
    answers: list[Event] = []
    # Checked before the records are read, as they may get their end meanwhile, and after, as it may just have begun.
    was_running = is_being_written(folder) if running is None else running
    session = read_session(folder, answers=answers, short=True, damage=damage)
    measured = tuple(_measured(session))
    events = [event.facts for event in answers if event.record is None]
    ends = [event for event in events if event["event"] == "end"]
    records = tuple(event.record for event in answers if event.record is not None)
    troubles = tuple(_trouble(event) for event in events if event["event"] in ("undecided", "trouble"))
    running = was_running or (running is None and is_being_written(folder))
    status = ends[-1]["status"] if ends else None
    schema = session.facts["schema"]
    ended = tells_end(schema) or session.partial_line
    completeness = _completeness(
        events, records, troubles, tells_end=ended, running=running, resume=resume or str(folder)
    )
    notes = [*(event["text"] for event in events if event["event"] == "note"), *_lost_samples(measured)]
    return SessionSummary(
        name=session.name,
        folder=folder,
        began_at=session.facts["at"],
        seconds=ends[-1]["seconds"] if ends else None,
        question=session.facts,
        records=records,
        troubles=(*troubles, *unexplained(status, records, troubles), *_unmeasured(completeness)),
        completeness=completeness,
        hosts=tuple(_hosts(measured)),
        samples=Samples(measured),
        run_times=_run_times(measured),
        provisional=_provisional(measured),
        runs=MeasuredRuns(folder),
        saved=session.facts.get("saved", ""),
        status=status,
        notes=tuple(dict.fromkeys(notes)),
    )


def _completeness(
    events: Sequence[Mapping[str, Any]],
    records: Iterable[Record],
    troubles: Iterable[Trouble],
    *,
    tells_end: bool,
    running: bool,
    resume: str,
) -> Completeness:
    """Return how far a session came; if it has no end, its items without an answer are missing."""
    plans = [event["items"] for event in events if event["event"] == "plan"]
    items = {nodeid: cell for plan in plans for nodeid, cell in plan.items()} if plans else None
    end = next((event for event in reversed(events) if event["event"] == "end"), None)
    answered = {record.nodeid for record in records} | {trouble.nodeid for trouble in troubles}
    missing = (items or {}).keys() - answered if end is None else end.get("missing")
    state = state_of(
        None if end is None else end["status"],
        None if missing is None else len(missing),
        running=running,
        tells_end=tells_end,
    )
    left = () if missing is None or state is SessionState.WHOLE else missing
    return completeness_of(items, {record.cell for record in records}, left, state=state, resume=resume)


def _unmeasured(completeness: Completeness) -> Iterator[Trouble]:
    for nodeid, _ in completeness.missing:
        yield Trouble(nodeid=nodeid, kind=UNMEASURED, sentence=completeness.why_missing)


class Samples(Mapping[tuple[str, Arm], Sequence[float]]):
    """Times of all runs that count, by workload and arm, read on access, as there may be millions.

    Samples of a reused workload are read from the earlier session.
    """

    def __init__(self, measured: Iterable[tuple[str, StoredWorkload]]) -> None:
        self._found: dict[tuple[str, Arm], StoredWorkload] = {}
        for name, workload in measured:
            for run in workload.runs if workload.whole else ():
                if set(_TIMES) & set(run["columns"]):
                    self._found[name, Arm.parse(run["arm"])] = workload

    def __getitem__(self, place: tuple[str, Arm]) -> Sequence[float]:
        workload, times = self._found[place], array("d")
        for run, samples in zip(workload.runs, workload.samples(), strict=True):
            if Arm.parse(run["arm"]) == place[1] and not run["warmup"]:
                columns = run["columns"]
                column = next(columns.index(name) for name in _TIMES if name in columns)
                times.extend(samples[column :: len(columns)])
                times.extend([math.inf] * sum(run["failed"].values()))
        return times

    def __iter__(self) -> Iterator[tuple[str, Arm]]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _run_times(measured: Iterable[tuple[str, StoredWorkload]]) -> Mapping[tuple[str, Arm], Sequence[float]]:
    """Return when the runs began that have all their values; runs of earlier schemas have no time of day."""
    found: dict[tuple[str, Arm], list[float]] = {}
    for name, workload in measured:
        for run in workload.runs:
            if not run["warmup"] and run.get("began_at") and None not in run["values"].values():
                found.setdefault((name, Arm.parse(run["arm"])), []).append(run["began_at"])
    return found


def _provisional(measured: Iterable[tuple[str, StoredWorkload]]) -> Mapping[tuple[str, Arm, str], Sequence[float]]:
    """Return the values of all runs of workloads that were broken off, or are being measured."""
    found: dict[tuple[str, Arm, str], list[float]] = {}
    for name, workload in measured:
        for run in () if workload.complete else workload.runs:
            for metric, value in ({} if run["warmup"] else run.get("values", {})).items():
                if value is not None:
                    found.setdefault((name, Arm.parse(run["arm"]), metric), []).append(value)
    return found


def _trouble(event: Mapping[str, Any]) -> Trouble:
    return Trouble(nodeid=event["nodeid"], kind=event.get("kind", "inconclusive"), sentence=event["sentence"])


def _measured(session: StoredSession) -> Iterator[tuple[str, StoredWorkload]]:
    """Return each workload from where it was measured; if an earlier session is gone, its workloads are missing."""
    yield from session.workloads.items()
    earlier: dict[Path, Mapping[str, StoredWorkload]] = {}
    for name, folder in session.reused.items():
        if folder not in earlier:
            earlier[folder] = _workloads(folder)
        if name not in session.workloads and name in earlier[folder]:
            yield name, earlier[folder][name]


def _lost_samples(measured: Iterable[tuple[str, StoredWorkload]]) -> Iterator[str]:
    """Iterate over sentences about complete workloads whose samples are missing."""
    for name, workload in measured:
        if workload.complete and not workload.whole:
            yield f"samples of {name} are missing in {workload.samples_file}: figures that need them are left out"


def _workloads(folder: Path) -> Mapping[str, StoredWorkload]:
    try:
        return read_session(folder, short=True).workloads
    except (UsageError, DamageError):
        return {}


def _hosts(measured: Iterable[tuple[str, StoredWorkload]]) -> Iterator[HostSummary]:
    """Iterate over the hosts of each testbed, each once, as the first epoch saw it."""
    seen: set[tuple[str, str]] = set()
    for name, workload in measured:
        testbed = testbed_of(name)
        for epoch in workload.epochs[:1]:
            listed = _listed(workload, epoch["fingerprint"])
            for role, facts in epoch["fingerprint"].items():
                if (testbed, role) not in seen:
                    seen.add((testbed, role))
                    own = listed.get(role, {})
                    yield HostSummary(
                        testbed=testbed,
                        role=role,
                        name=own.get("name", ""),
                        addresses=tuple(filter(None, (own.get("ipv4"), own.get("ipv6")))),
                        facts={**facts, "server": epoch["server"]},
                    )


def _listed(workload: StoredWorkload, roles: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the inventory's description of each host, by role; empty if the workload was broken off."""
    testbed = workload.complete.get("testbed", {})
    more = {f"client{number}": host for number, host in enumerate(testbed.get("more_clients", ()), start=2)}
    listed = {**testbed, **more}
    return {role: listed[role] for role in roles if role in listed}
