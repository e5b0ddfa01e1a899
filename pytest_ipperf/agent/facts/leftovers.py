"""Leftovers of earlier measurements, and who measures now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.host_state.dirty_marks import all_marks, still_holds
from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.agent.host_state.private_dir import abandoned_folders
from pytest_ipperf.agent.host_state.state_dir import user_dirs


def facts(request: Mapping[str, Any]) -> dict[str, Any]:
    """`holder` of the lease; `marks`; private `folders` whose agents are gone; `undo_logs` of rollback helpers.

    Of a note of a mark there is `said`, and whether it `holds`: None where only a person can tell.
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
    """Those of rollback helpers, which may live and change this host."""
    for _, folder in user_dirs():
        with suppress(OSError):  # root's is closed to others
            yield from sorted(path for path in folder.iterdir() if path.name.startswith("journal"))
