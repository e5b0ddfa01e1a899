"""The controller's connection to this host."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from pytest_ipperf.agent.facts.base import Facts, FactsRequest
from pytest_ipperf.agent.paths.clock_exchange import clock_of_host
from pytest_ipperf.agent.sockets.control_connection import parse_ends, ssh_connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFacts(Facts):
    """Both ends of the controller's connection, its own first, or None if sshd names none; and the host's identity."""

    ends: tuple[str, str] | None
    boot: str
    kernel: str
    machine: str
    python: str

    @classmethod
    def collect(cls, request: FactsRequest) -> ControlFacts:
        """Read the environment that sshd sets, and ask the kernel."""
        del request
        ends = parse_ends(ssh_connection(os.environ))
        return cls(
            ends=(ends[0], ends[2]) if ends else None,
            boot=clock_of_host()["boot"],
            kernel=platform.release(),
            machine=platform.machine(),
            python=platform.python_version(),
        )


facts = ControlFacts
