"""User of the agent, and its capabilities."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path

from pytest_ipperf.agent.facts.base import FactsRequest

_ADMIN, _RAW = 12, 13  # linux/capability.h


def facts(request: FactsRequest) -> dict[str, object]:
    """Return the `user`, and whether it is `root`, may open `raw` sockets and may change the network (`admin`)."""
    del request
    user, capabilities = str(os.geteuid()), 0
    with suppress(KeyError):  # a user without a name
        user = pwd.getpwuid(os.geteuid()).pw_name
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            capabilities = int(line.split()[1], 16)
    may = {"raw": bool(capabilities >> _RAW & 1), "admin": bool(capabilities >> _ADMIN & 1)}
    return {"user": user, "root": os.geteuid() == 0, **may}
