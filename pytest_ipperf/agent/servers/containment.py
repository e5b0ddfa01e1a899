"""Containment of a server: a command prefix that ends all processes of the server when its agent ends.

Where possible, a server lives in a pid namespace of its own: the kernel kills all of a namespace's processes when its
first one dies, and that one is tied to the agent. Elsewhere the agent's death only sends the server SIGTERM.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pytest_ipperf.agent.kernel.processes import search_path
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import program, true_root

_MOST_FILES = 65536
_NOBODY = 65534
# If the agent died before the signal was set, it is no longer the parent. The file limit is the server's alone.
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
class Containment:
    """Command prefix of a server.

    `wrappers` counts the processes above the server's own; with `relayed` the last of them passes SIGTERM on to it.
    """

    signal: str
    words: tuple[str, ...]
    wrappers: int
    relayed: bool = False

    def argv(self, command: Sequence[str]) -> list[str]:
        """Return the complete command. It is tied to the thread that starts it, which therefore has to outlive it."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        guard = ("sh", "-c", _GUARD, "sh", str(os.getpid()), str(files))
        return ["setpriv", "--pdeathsig", self.signal, "--", *guard, *self.words, *command]


@cache
def containment() -> Containment:
    """Return the best containment that works on this host for this user; raise LabError if none does."""
    if not program("setpriv"):
        raise LabError("no server can be started here: setpriv is not installed (Debian: apt-get install util-linux)")
    return next((candidate for candidate in (_namespace(), _relay()) if _works(candidate)), _relay())


def _namespace() -> Containment:
    if true_root():
        # The inner namespace makes the server a first process, as Postfix does not stop with its start script. The
        # outer one is certain to end: the kernel forgets the signal of a process that changes its user, as Postfix's
        # master does and this shell does not. The shell also passes on the signal of which the server died.
        return Containment("KILL", (*_NAMESPACE, "--", "sh", "-c", '"$@"; exit $?', "sh", *_NAMESPACE, "--"), 3)
    # Root of a user namespace cannot switch to other users, so its servers must not run as root.
    user, group = (os.geteuid(), os.getegid()) if os.geteuid() else (_NOBODY, _NOBODY)
    return Containment("KILL", (*_NAMESPACE, "--user", f"--map-user={user}", f"--map-group={group}", "--"), 1)


def _relay() -> Containment:
    return Containment("TERM", ("sh", "-c", _RELAY, "sh"), 1, relayed=True)


def _works(candidate: Containment) -> bool:
    try:
        done = subprocess.run(candidate.argv(["true"]), capture_output=True, timeout=10, env=search_path(), check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
