"""The controller's connection to this host."""

from __future__ import annotations

import os
import platform

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.paths.clock_exchange import clock_of_host
from pytest_ipperf.agent.sockets.control_connection import parse_ends, ssh_connection


def facts(request: FactsRequest) -> dict[str, object]:
    """Return the `ends` of the controller's connection, theirs first, if sshd names them; and the host's identity."""
    del request
    ends = parse_ends(ssh_connection(os.environ))
    return {
        "ends": [ends[0], ends[2]] if ends else [],
        "boot": clock_of_host()["boot"],
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
