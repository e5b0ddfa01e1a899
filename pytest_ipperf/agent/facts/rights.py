"""User of the agent, and its capabilities."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_ADMIN, _RAW = 12, 13  # linux/capability.h


def facts(request: Mapping[str, Any]) -> dict[str, Any]:
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
