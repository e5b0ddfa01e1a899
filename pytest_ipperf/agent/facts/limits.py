"""What this user may have open at once, and by which ports connections leave."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from typing import Any

from pytest_ipperf.agent.load.limits import ephemeral_ports


def facts(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`descriptors`, 0 where there is no limit; `ephemeral`, the first and the last port."""
    del asked
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return {"descriptors": 0 if hard == resource.RLIM_INFINITY else hard, "ephemeral": list(ephemeral_ports())}
