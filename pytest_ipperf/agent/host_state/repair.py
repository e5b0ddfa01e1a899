"""Repair of what earlier measurements have left on this host, as far as that is safe without a person."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from pytest_ipperf.agent.host_state.dirty_marks import DirtyMark, all_marks, clear_notes
from pytest_ipperf.agent.host_state.private_dir import remove_abandoned
from pytest_ipperf.agent.kernel.processes import lives
from pytest_ipperf.core.portable.errors import LabError

_GOES_S, _POLL_S = 1.0, 0.02


def repair(removed_folders: int, *, everything: bool) -> list[str]:
    """Remove and end this user's certain leftovers, then clear marks; return sentences on what was done.

    `removed_folders` is the number of private folders removed before. With `everything`, marks that only a person can
    judge are cleared too.
    """
    done = (
        [f"removed {removed_folders} private folder{'s' if removed_folders > 1 else ''}, left by agents that are gone"]
        if removed_folders
        else []
    )
    return [*done, *(sentence for mark in all_marks() for sentence in _mark(mark, everything=everything))]


def _mark(mark: DirtyMark, *, everything: bool) -> list[str]:
    done = []
    if mark.user == os.geteuid():  # users may write any note into their own marks, which root must not act on
        for note in mark.notes:
            if "process" in note and _killed(*note["process"]):
                done.append(f"killed process {note['process'][0]}, a server that had been left")
            with contextlib.suppress(LabError):  # a leftover that stays is among the facts
                if "folder" in note and remove_abandoned(Path(note["folder"])):
                    done.append(f"removed {note['folder']}")
    try:
        stay = clear_notes(mark, everything=everything)
    except LabError as error:
        return [*done, str(error)]
    cleared = [note["said"] for note in mark.notes if note not in stay]
    return [*done, *(f"cleared the mark of: {sentence}" for sentence in cleared)]


def _killed(pid: int, started_ticks: int) -> bool:
    """Kill the process; return whether it was alive and has ended."""
    if not lives(pid, started_ticks):
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + _GOES_S
    while lives(pid, started_ticks) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return not lives(pid, started_ticks)
