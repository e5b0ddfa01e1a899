"""Check and raise the limit of open files for the agents of a testbed."""

from __future__ import annotations

import resource

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.inventory.model import Testbed

# Descriptors of an agent's pipes and of its start; and those of pytest and its plugins.
_OF_A_HOST, _OTHERS = 8, 64


def enough_descriptors(testbed: Testbed) -> None:
    """Raise this process's soft limit as far as its agents need; LabError if the hard limit is below that.

    Otherwise the first open file beyond the limit would fail in the middle of starting agents.
    """
    hosts = len(testbed.hosts)
    needed = _OTHERS + _OF_A_HOST * hosts
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise LabError(
            f"testbed {testbed.name} takes up to {needed} open files in this process, as it has {hosts} hosts, and no "
            f"more than {hard} are allowed (ulimit -H -n); allow {needed} or more"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
