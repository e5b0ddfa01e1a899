"""Check and raise the limit of open files for the agents of a testbed."""

from __future__ import annotations

import resource

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.inventory.model import Testbed

# Pipes to an agent's process and what starting it takes meanwhile; and all that pytest and its plugins have open.
_OF_A_HOST, _OTHERS = 8, 64


def enough_descriptors(testbed: Testbed) -> None:
    """Raise the soft limit of this process as far as its agents need; LabError where the hard one is below that.

    Whatever opens a file first would end in an error otherwise, in the midst of what has been started by then.
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
