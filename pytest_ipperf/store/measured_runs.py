"""Iterate over the runs of a session that count, with those that it reused from earlier sessions."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import confirmed_by
from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.core.records.measured_run import MeasuredRun
from pytest_ipperf.store.session_reader import (
    StoredSession,
    StoredWorkload,
    open_samples,
    read_run_samples,
    read_session,
)


class MeasuredRuns(Iterable[MeasuredRun]):
    """The runs of the session in `folder`, read anew by each iteration, as there may be very many.

    Iterating raises as `read_session` does. Workloads reused from a session that is gone have no runs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __iter__(self) -> Iterator[MeasuredRun]:
        """Iterate over the runs, workload by workload in the order of their names, in the order of measurement."""
        session = read_session(self._folder)
        found = {name: (session.name, workload) for name, workload in session.workloads.items()}
        for name, folder in session.reused.items():
            if name not in found and (earlier := _earlier(folder)) and name in earlier.workloads:
                found[name] = (earlier.name, earlier.workloads[name])
        for name in sorted(found):
            yield from _runs(name, *found[name])


def _earlier(folder: Path) -> StoredSession | None:
    try:
        return read_session(folder)
    except (UsageError, DamageError):
        return None


def _runs(name: str, session: str, workload: StoredWorkload) -> Iterator[MeasuredRun]:
    confirms = bool(workload.workload_event.get("confirms"))
    for run in workload.runs:
        if not run["warmup"]:
            yield MeasuredRun(
                session=session,
                workload=confirmed_by(name)[0] if confirms else name,
                confirms=confirms,
                arm=Arm.parse(run["arm"]),
                epoch=run.get("epoch", 0),
                block=run.get("block", 0),
                slot=run.get("slot", 0),
                began_at=run.get("began_at"),
                attempted=run.get("attempted", 0),
                failed=run["failed"],
                values=run.get("values", {}),
                columns=tuple(run["columns"]),
                samples=partial(_samples, workload, run),
            )


def _samples(workload: StoredWorkload, run: Mapping[str, Any]) -> array[float]:
    with open_samples(workload.samples_file) as file:
        return read_run_samples(file, workload.samples_file, run)
