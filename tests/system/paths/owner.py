"""Builds a lab with its tunnels by one backend, tells of it in a line of JSON, and keeps it until its input ends.

It is a program of its own so that another user can run it. Arguments: the backend, the testbed, and the roles of hosts
that are to have no ends.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence

from pytest_ipperf.lab.epoch.build import build_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN, with_rate
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from pytest_ipperf.transports.base import NetworkPath


def without(path: NetworkPath, roles: Sequence[str]) -> NetworkPath:
    """A path whose ends on those hosts somebody else will make."""
    return dataclasses.replace(path, ends={role: end for role, end in path.ends.items() if role not in roles})


def main(backend: str, name: str, *bare: str) -> None:
    """The testbed of that name; `missing` is told where the machine lacks what it needs."""
    testbed = with_rate(name, BUILTIN)
    assert testbed
    paths = {transport: without(path, bare) for transport, path in testbed.paths.items()}
    testbed = dataclasses.replace(testbed, paths=paths)
    if why := unusable() or lab_backend(testbed, backend)[1]:
        print(json.dumps({"missing": why}), flush=True)  # noqa: T201 - the answer
        return
    with build_testbed(testbed, transports=("tunnel", "isatap"), backend=backend) as up:
        trouble = {transport: str(error) for transport, error in up.tunnels.trouble.items()}
        reported = {"entries": up.entries, "backends": up.tunnels.backends, "trouble": trouble}
        print(json.dumps(reported), flush=True)  # noqa: T201 - the answer
        sys.stdin.read()


main(*sys.argv[1:])
