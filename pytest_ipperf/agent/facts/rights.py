"""User of the agent, and its capabilities."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.facts.base import Facts, FactsRequest

_ADMIN, _RAW = 12, 13  # linux/capability.h


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsFacts(Facts):
    """The user, and whether it is root, may open `raw` sockets and may change the network (`admin`)."""

    user: str
    root: bool
    raw: bool
    admin: bool

    @classmethod
    def collect(cls, request: FactsRequest) -> RightsFacts:
        """Ask the kernel about this process."""
        del request
        user, capabilities = str(os.geteuid()), 0
        with suppress(KeyError):  # a user without a name
            user = pwd.getpwuid(os.geteuid()).pw_name
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                capabilities = int(line.split()[1], 16)
        return cls(
            user=user,
            root=os.geteuid() == 0,
            raw=bool(capabilities >> _RAW & 1),
            admin=bool(capabilities >> _ADMIN & 1),
        )


facts = RightsFacts
