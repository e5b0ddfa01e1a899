"""A leash: what a server program is started with, so that all it ever starts is gone when its agent is.

Where it may, a server lives in a pid namespace of its own: the kernel kills all of a namespace's processes when its
first one dies, and that one is tied to the agent. Elsewhere the agent's death sends the server SIGTERM, no more.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import program, true_root

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MOST_FILES = 65536
_NOBODY = 65534
# An agent that died before the signal was set is not the parent any more. The file limit is the server's alone.
_GUARD = 'test "$PPID" = "$1" || exit 1; ulimit -S -n "$2"; shift 2; exec "$@"'
# A server may be started by a script that does not pass signals on, so its children get them too.
_RELAY = """
trap 'kill -TERM $server $(cat /proc/$server/task/$server/children)' TERM
"$@" &
server=$!
while wait $server; status=$?; kill -0 $server 2>/dev/null; do :; done
wait $server  # a wait that the signal cut short has told nothing; 127: the last one has told all
late=$?
test $late = 127 || status=$late
exit $status
"""
_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True)
class Leash:
    """The words before a server's own command.

    `holders` counts the processes above the server's own; with `relayed` the last of them passes SIGTERM on to it.
    """

    signal: str
    words: tuple[str, ...]
    holders: int
    relayed: bool = False

    def argv(self, command: Sequence[str]) -> list[str]:
        """The whole command. It is tied to the thread that starts it, so that has to be one that stays."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        guard = ("sh", "-c", _GUARD, "sh", str(os.getpid()), str(files))
        return ["setpriv", "--pdeathsig", self.signal, "--", *guard, *self.words, *command]


@dataclass(frozen=True)
class Process:
    """One process as this host sees it; number and start together name it for ever."""

    pid: int
    parent: int
    started_ticks: int
    cpu_s: float
    alive: bool


@cache
def leash() -> Leash:
    """The best leash that works on this host for this user; LabError where none does."""
    if not program("setpriv"):
        raise LabError("no server can be started here: setpriv is not installed (Debian: apt-get install util-linux)")
    return next((candidate for candidate in (_namespace(), _relay()) if _works(candidate)), _relay())


def _namespace() -> Leash:
    if true_root():
        # The inner namespace makes the server a first process, as Postfix does not stop with its start script.
        # The outer one ends for sure: the kernel forgets the signal of a process that changes its user, as Postfix's
        # master does and this shell does not. The shell also passes on of which signal the server died.
        return Leash("KILL", (*_NAMESPACE, "--", "sh", "-c", '"$@"; exit $?', "sh", *_NAMESPACE, "--"), 3)
    # Root of a user namespace has no other users to become: its servers had better not take themselves for root.
    user, group = (os.geteuid(), os.getegid()) if os.geteuid() else (_NOBODY, _NOBODY)
    return Leash("KILL", (*_NAMESPACE, "--user", f"--map-user={user}", f"--map-group={group}", "--"), 1)


def _relay() -> Leash:
    return Leash("TERM", ("sh", "-c", _RELAY, "sh"), 1, relayed=True)


def _works(candidate: Leash) -> bool:
    try:
        done = subprocess.run(candidate.argv(["true"]), capture_output=True, timeout=10, env=search_path(), check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def search_path() -> Mapping[str, str]:
    """The environment that a server starts from: nothing of the user's but where programs are."""
    folders = (os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin")
    return {"PATH": os.pathsep.join(folders), "LC_ALL": "C"}


def tree(root: int) -> list[list[Process]]:
    """A process and all below it, level by level; the processes of a level by age."""
    processes = _processes()
    level = [process for process in processes if process.pid == root]
    levels = []
    while level:
        levels.append(level)
        parents = {process.pid for process in level}
        level = sorted((p for p in processes if p.parent in parents), key=lambda p: (p.started_ticks, p.pid))
    return levels


def survivors(processes: Sequence[Process]) -> list[Process]:
    """Those of them that still live; one that has ended and waits for its parent does not."""
    named = {(process.pid, process.started_ticks) for process in processes}
    found = map(process_of, (pid for pid, _ in named))
    return [each for each in found if each and each.alive and (each.pid, each.started_ticks) in named]


def lives(pid: int, started_ticks: int) -> bool:
    """The same of one."""
    found = process_of(pid)
    return found is not None and found.alive and found.started_ticks == started_ticks


def _processes() -> list[Process]:
    return [found for name in os.listdir("/proc") if name.isdecimal() and (found := process_of(int(name)))]  # noqa: PTH208


def process_of(pid: int) -> Process | None:
    """One line of /proc/PID/stat (proc(5)); None for a process that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return Process(
        pid=pid,
        parent=int(fields[1]),
        started_ticks=int(fields[19]),
        # Its own time in user and kernel mode, and that of the children it has waited for.
        cpu_s=sum(map(int, fields[11:15])) / _TICKS_PER_S,
        alive=fields[0] not in "ZX",
    )
