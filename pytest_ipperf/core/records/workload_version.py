"""Version of a workload: what two sessions must share to have measured the same thing.

A change of the version begins a new history; a change of the fingerprint is only reported beside the history.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_ipperf.core.design.cell import Arm

_DIGITS = 6
# Facts that change from session to session, such as names of the lab's devices.
_PASSING = ("device",)


def workload_version(
    *, protocol: int, server: str, reference: Arm, size: str, deadline_s: float, state: str, judged: int = 1
) -> str:
    """Return the version of a workload as text, such as `1-apache-ipv4-300x-10s-1f0c5d-judged2`.

    `protocol` is the version of its definition, `server` the program's name (empty for flows), `size` the length of a
    run, `state` the digest of the server state, and `judged` the version of the values by which its metric judges runs,
    left out if it is 1. It repeats nothing of the cell's text.
    """
    values = f"judged{judged}" if judged > 1 else ""
    parts = (str(protocol), server, str(reference), size, f"{deadline_s:g}s", state[:_DIGITS], values)
    return "-".join(filter(None, parts))


def fingerprint_digest(hosts: Mapping[str, Mapping[str, Any]], server: str) -> str:
    """Return the digest of the hosts' fingerprints, by role, and of the server with its version."""
    kept = {role: {fact: facts[fact] for fact in facts if fact not in _PASSING} for role, facts in hosts.items()}
    content = json.dumps([kept, server], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[: 2 * _DIGITS]
