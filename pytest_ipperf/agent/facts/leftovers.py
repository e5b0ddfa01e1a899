"""Leftovers of earlier measurements, and the current holder of the lease."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.host_state.dirty_marks import all_marks, still_holds
from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.agent.host_state.private_dir import abandoned_folders
from pytest_ipperf.agent.host_state.state_dir import user_dirs


def facts(request: FactsRequest) -> dict[str, object]:
    """Return the lease's `holder`, dirty `marks`, abandoned private `folders` and `undo_logs` of rollback helpers.

    A note of a mark is its text (`said`) and whether it still `holds`: None if only a person can judge.
    """
    del request
    found = [
        {"user": mark.user, "notes": [{"said": note["said"], "holds": still_holds(note)} for note in mark.notes]}
        for mark in all_marks()
    ]
    return {
        "holder": Lease("").holder(),
        "marks": found,
        "folders": [str(folder) for folder in abandoned_folders()],
        "undo_logs": [str(path) for path in _undo_logs()],
    }


def _undo_logs() -> Iterator[Path]:
    """Yield the undo logs of rollback helpers, which may still be running."""
    for _, folder in user_dirs():
        with suppress(OSError):  # root's folder is closed to others
            yield from sorted(path for path in folder.iterdir() if path.name.startswith("journal"))
