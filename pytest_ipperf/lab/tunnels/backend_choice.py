"""Choose the backend that encapsulates the tunnels of a testbed, without an agent."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest_ipperf
from pytest_ipperf.agent.tunnels.backends import BACKENDS, preferred
from pytest_ipperf.lab.inventory.model import AUTO, Testbed
from pytest_ipperf.lab.netns.namespaces import rights_of_hosts

_ASK = """
import sys
sys.path.insert(0, sys.argv[1])
from pytest_ipperf.agent.tunnels.backends import BACKENDS
print(BACKENDS[sys.argv[2]].missing())
"""
_ASK_S = 10.0


def too_slow(testbed: Testbed, name: str) -> str:
    """Return why a backend would distort the measurement there, as the end of a sentence; empty if it would not."""
    if not BACKENDS[name].needs_rate or testbed.links.rate_bit_s:
        return ""
    remedy = f"testbed {testbed.name}.100mbit has one" if testbed.is_lab else "hosts have none"
    return f"it needs links with a rate, and {remedy}"


def candidates(testbed: Testbed, wanted: str) -> tuple[str, ...]:
    """Return the backends to try, best first; an empty `wanted` leaves the choice to the testbed.

    `auto` means all backends for a lab, and the kernel's driver for the user's own hosts.
    """
    backend = wanted or testbed.backend
    if backend != AUTO:
        return (backend,)
    return preferred() if testbed.is_lab else preferred()[:1]


@cache
def _missing_here(name: str) -> str:
    """Return why a lab's hosts cannot use a backend.

    Without root the question is asked in a user namespace, which has rights that the user lacks outside.
    """
    if not (words := rights_of_hosts()):
        return BACKENDS[name].missing()
    ask = [sys.executable, "-P", "-c", _ASK, str(Path(pytest_ipperf.__file__).parents[1]), name]
    try:
        done = subprocess.run([*words, *ask], capture_output=True, text=True, timeout=_ASK_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"it cannot be tested ({error})"
    return done.stdout.strip()


def lab_backend(testbed: Testbed, wanted: str) -> tuple[str, str]:
    """Return the backend for a lab's tunnels on this machine, and why none works; one of the two is empty."""
    reasons = []
    for name in candidates(testbed, wanted):
        why = _missing_here(name) or too_slow(testbed, name)
        if not why:
            return name, ""
        reasons.append(f"{name}: {why}")
    return "", "; ".join(reasons)
