"""Repair what earlier measurements have left on this host, as far as that is safe without a person."""

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
    """Remove and end what is beyond doubt left of this user's, then clear marks; say what was done.

    `removed_folders`: how many private folders were removed before. With `everything` marks are cleared also of what
    only a person can judge.
    """
    done = (
        [f"removed {removed_folders} private folder{'s' if removed_folders > 1 else ''}, left by agents that are gone"]
        if removed_folders
        else []
    )
    return [*done, *(said for mark in all_marks() for said in _mark(mark, everything=everything))]


def _mark(mark: DirtyMark, *, everything: bool) -> list[str]:
    done = []
    if mark.user == os.geteuid():  # anybody may write into his own mark what root had better not do
        for note in mark.notes:
            if "process" in note and _killed(*note["process"]):
                done.append(f"killed process {note['process'][0]}, a server that had been left")
            with contextlib.suppress(LabError):  # what stays is among the facts
                if "folder" in note and remove_abandoned(Path(note["folder"])):
                    done.append(f"removed {note['folder']}")
    try:
        stay = clear_notes(mark, everything=everything)
    except LabError as error:
        return [*done, str(error)]
    cleared = [note["said"] for note in mark.notes if note not in stay]
    return [*done, *(f"cleared the mark of: {said}" for said in cleared)]


def _killed(pid: int, started_ticks: int) -> bool:
    """Whether the process was there and has gone."""
    if not lives(pid, started_ticks):
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + _GOES_S
    while lives(pid, started_ticks) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return not lives(pid, started_ticks)
