"""Namespace: a node of the built-in lab, entered by `nsenter`."""

from __future__ import annotations

from pytest_ipperf.lab.access.local import Local


class Namespace(Local):
    """As local, behind the command that enters the node; the lab makes the nodes, so `hosts.ini` cannot name it."""

    keys = frozenset({"node"})
    in_inventory = False


access_method = Namespace()
