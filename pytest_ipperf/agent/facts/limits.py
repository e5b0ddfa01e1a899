"""Limits of this user's open files, and the ephemeral ports."""

from __future__ import annotations

import resource

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.load.limits import ephemeral_ports


def facts(request: FactsRequest) -> dict[str, object]:
    """Return `descriptors`, 0 without a limit, and `ephemeral`, the first and the last ephemeral port."""
    del request
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return {"descriptors": 0 if hard == resource.RLIM_INFINITY else hard, "ephemeral": list(ephemeral_ports())}
