"""Builds a lab with its tunnels by one backend, tells of it in a line of JSON, and keeps it until its input ends.

It is a program of its own so that another user can run it.
"""

from __future__ import annotations

import json
import sys

from pytest_ipperf.agent.backends import BACKENDS
from pytest_ipperf.lab.building import built
from pytest_ipperf.lab.labs import BUILTIN, rated
from pytest_ipperf.lab.namespaces import unusable


def main(backend: str, name: str) -> None:
    """The testbed of that name; `missing` is told where the machine lacks what it needs."""
    testbed = rated(name, BUILTIN)
    assert testbed
    if why := unusable() or BACKENDS[backend].missing():
        print(json.dumps({"missing": why}), flush=True)  # noqa: T201 - the answer
        return
    with built(testbed, transports=("tunnel", "isatap"), backend=backend) as up:
        trouble = {transport: str(error) for transport, error in up.tunnels.trouble.items()}
        told = {"entries": up.entries, "backends": up.tunnels.backends, "trouble": trouble}
        print(json.dumps(told), flush=True)  # noqa: T201 - the answer
        sys.stdin.read()


main(*sys.argv[1:])
