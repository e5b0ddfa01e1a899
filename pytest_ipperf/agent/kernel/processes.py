"""Process table of this host, from /proc: a process and its descendants, and which of them are still alive."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STAT_BYTES = 4096


@dataclass(frozen=True)
class Process:
    """One process as this host sees it; number and start together identify it uniquely."""

    pid: int
    parent: int
    started_ticks: int
    cpu_s: float
    alive: bool


def search_path() -> Mapping[str, str]:
    """Return the environment of a server: nothing of the user's except the search path of programs."""
    folders = (os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin")
    return {"PATH": os.pathsep.join(folders), "LC_ALL": "C"}


def tree(root: int) -> list[list[Process]]:
    """Return a process and its descendants, level by level; the processes of a level by age."""
    processes = _processes()
    level = [process for process in processes if process.pid == root]
    levels = []
    while level:
        levels.append(level)
        parents = {process.pid for process in level}
        level = sorted((p for p in processes if p.parent in parents), key=lambda p: (p.started_ticks, p.pid))
    return levels


def survivors(processes: Sequence[Process]) -> list[Process]:
    """Return the processes that are still alive; a zombie that waits for its parent is not."""
    named = {(process.pid, process.started_ticks) for process in processes}
    found = map(process_of, (pid for pid, _ in named))
    return [each for each in found if each and each.alive and (each.pid, each.started_ticks) in named]


def lives(pid: int, started_ticks: int) -> bool:
    """Return whether this process is still alive; a zombie is not."""
    found = process_of(pid)
    return found is not None and found.alive and found.started_ticks == started_ticks


def _processes() -> list[Process]:
    return [found for name in os.listdir("/proc") if name.isdecimal() and (found := process_of(int(name)))]  # noqa: PTH208


def process_of(pid: int) -> Process | None:
    """Parse one line of /proc/PID/stat (proc(5)); return None if the process is gone."""
    try:
        # Not by `Path`, which takes twice as long: all of the table is read around every run.
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            fields = os.read(file, _STAT_BYTES).rsplit(b")", 1)[1].split()
        finally:
            os.close(file)
    except (OSError, IndexError):
        return None
    return Process(
        pid=pid,
        parent=int(fields[1]),
        started_ticks=int(fields[19]),
        # Its own time in user and kernel mode, and that of the children it has waited for.
        cpu_s=sum(map(int, fields[11:15])) / _TICKS_PER_S,
        alive=fields[0] not in b"ZX",
    )
