"""Separate network namespaces for the tests of this room, where the machine permits them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import require
from tests.support.sessions.forked_python import can_fork, run_python

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PROGRAMS = ":/usr/sbin:/sbin"
# Import paths of code in a namespace: the project, and the files beside a test.
PLACES = [ROOT, *sorted({path.parent for path in HERE.rglob("*.py")})]


def _unshare():
    """Return the command that makes a network namespace here, as root or as a user; empty if none works."""
    for identity in ((), ("--user", "--map-root-user")):
        words = ["unshare", *identity, "--net", "--mount"]
        if not subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
            return words
    return []


@pytest.fixture(scope="session")
def own_network():
    """Return the command prefix that gives a command a network namespace of its own."""
    words = _unshare()
    if not words:
        pytest.skip("no rights for a network namespace")
    return words


@pytest.fixture(scope="session")
def isolated(own_network):
    """Run Python code in a new network namespace, with the test files importable; return its output.

    `up` sets up the network first, in shell; its default is a working loopback device.
    """
    require("ip", "tc")

    def run(code, up="ip link set lo up"):
        paths = f"import os, sys; sys.path[:0] = {[*map(str, PLACES)]}; os.environ['PATH'] += {PROGRAMS!r}\n"
        script = f"PATH=$PATH{PROGRAMS}; {up}\n"
        # A script that ends as another program, with fewer rights, starts a Python of its own.
        if "--user" in own_network or '"$@"' in up or not can_fork(os.environ):
            argv = [*own_network, "sh", "-ec", f'{script}exec "$@"', "sh", sys.executable, "-c", paths + code]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
        else:
            done = run_python(["-c", paths + code], timeout=300, network=script)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
