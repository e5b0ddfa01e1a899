"""What the tests of this room share: processes that must be gone, and a user without rights."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ipperf.agent.leash import survivors, tree

ROOT = Path(__file__).parents[2]


class Processes:
    """Processes under observation; `below` adds one and all that it has started, or only the latter."""

    def __init__(self):
        self._seen = []

    def below(self, pid, *, itself=True):
        found = [process for level in tree(pid)[0 if itself else 1 :] for process in level]
        self._seen += found
        return [process.pid for process in found]

    def left(self):
        """Those that have not gone within five seconds; it takes a fraction of one, but other work may go on here."""
        end = time.monotonic() + 5
        while (found := survivors(self._seen)) and time.monotonic() < end:
            time.sleep(0.01)
        return [Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ") for process in found]


@pytest.fixture
def processes():
    """An observer of processes; what it has seen is gone when the test ends, or the test fails."""
    observer = Processes()
    yield observer
    left = observer.left()
    for process in survivors(observer._seen):
        os.kill(process.pid, signal.SIGKILL)
    assert not left


@dataclass(frozen=True)
class User:
    """How to run a Python as a user: the words before it, which one, and the environment that finds the package."""

    words: list[str]
    python: str
    env: dict[str, str]

    def argv(self, code, *arguments):
        return [*self.words, self.python, "-c", code, *arguments]


@pytest.fixture(scope="session")
def me():
    """The user who runs the tests."""
    return User([], sys.executable, {**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="session")
def nobody(me):
    """A user without rights: for root another one, with a copy of the package to read."""
    if os.geteuid() != 0:
        yield me
        return
    # By `env`, as setpriv itself may still start what this user may not.
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "env"]
    for python in (sys.executable, "/usr/bin/python3"):
        asked = [*words, python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if not subprocess.run(asked, capture_output=True, check=False, cwd="/").returncode:
            break
    else:
        pytest.skip("there is no Python >= 3.11 here that a user without rights may run")
    # Not below pytest's own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory(prefix="pytest-ipperf-copy-") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(ROOT / "pytest_ipperf", Path(folder, "pytest_ipperf"))
        yield User(words, python, {"PATH": "/usr/bin:/bin", "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"})
