"""Choose the backend that encapsulates the tunnels of a testbed. Needs no agent."""

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
    """Why a backend would itself be what is measured there, as the end of a sentence; empty where it would not."""
    if not BACKENDS[name].needs_rate or testbed.links.rate_bit_s:
        return ""
    remedy = f"testbed {testbed.name}.100mbit has one" if testbed.is_lab else "hosts have none"
    return f"it needs links with a rate, and {remedy}"


def candidates(testbed: Testbed, wanted: str) -> tuple[str, ...]:
    """Return the backends that are tried, the best first; an empty `wanted` leaves it to the testbed.

    `auto` means the same wherever it is written: of a lab all of them, of hosts of the user's own the kernel's driver.
    """
    asked = wanted or testbed.backend
    if asked != AUTO:
        return (asked,)
    return preferred() if testbed.is_lab else preferred()[:1]


@cache
def _missing_here(name: str) -> str:
    """Why a lab's hosts cannot have it; an ordinary user has rights in their namespace that are refused outside."""
    if not (words := rights_of_hosts()):
        return BACKENDS[name].missing()
    ask = [sys.executable, "-P", "-c", _ASK, str(Path(pytest_ipperf.__file__).parents[1]), name]
    try:
        done = subprocess.run([*words, *ask], capture_output=True, text=True, timeout=_ASK_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"nobody can be asked whether it works ({error})"
    return done.stdout.strip()


def lab_backend(testbed: Testbed, wanted: str) -> tuple[str, str]:
    """What will carry a lab's tunnels on this machine, and why nothing can: one of the two is empty."""
    reasons = []
    for name in candidates(testbed, wanted):
        why = _missing_here(name) or too_slow(testbed, name)
        if not why:
            return name, ""
        reasons.append(f"{name}: {why}")
    return "", "; ".join(reasons)
