"""Fixtures shared by these tests: processes that must be gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel.processes import survivors, tree


class Processes:
    """Processes under observation; `below` adds a process with its descendants, or only the descendants.

    Processes that the tests started earlier, to fork sessions from, are exempt.
    """

    def __init__(self):
        self._seen = []
        self._before = {process.pid for level in tree(os.getpid())[1:] for process in level}

    def below(self, pid, *, itself=True):
        levels = tree(pid)[0 if itself else 1 :]
        found = [process for level in levels for process in level if process.pid not in self._before]
        self._seen += found
        return [process.pid for process in found]

    def left(self):
        """Return the processes that have not ended in time; that takes a fraction of a second on an idle machine."""
        end = time.monotonic() + 20
        while (found := survivors(self._seen)) and time.monotonic() < end:
            time.sleep(0.01)
        return [_command(process.pid) for process in found]


def _command(pid):
    with contextlib.suppress(OSError):  # it has gone at last
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    return b""


@pytest.fixture
def processes():
    """Observe processes; the test fails if one of them is left at its end."""
    observer = Processes()
    yield observer
    left = observer.left()
    for process in survivors(observer._seen):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    assert not left
