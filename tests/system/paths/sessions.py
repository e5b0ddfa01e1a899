"""Runs measuring sessions: each line of its input begins one, a pytest of its own in a child, and is answered its pid.

What a session leaves behind when it is killed becomes a child of this process, so nothing can hide. When this process
ends, its session is killed. Arguments: those of pytest.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import pytest
import scipy.stats  # noqa: F401 - takes long, and every session needs it

import pytest_ipperf.plugin.measure.measured
import pytest_ipperf.plugin.summary  # noqa: F401 - likewise

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def run(arguments: list[str]) -> None:
    """One session, in a child."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(file, stream)
    status = pytest.main(arguments)
    sys.stdout.flush()
    os._exit(status)


def main(arguments: list[str]) -> None:
    """Serves until the input ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what ends is waited for by nobody
    while sys.stdin.readline():
        pid = os.fork()
        if not pid:
            run(arguments)
        print(pid, flush=True)  # noqa: T201 - the answer


main(sys.argv[1:])
