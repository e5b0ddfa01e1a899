"""Namespace: a node of the built-in lab, entered by `nsenter`."""

from __future__ import annotations

from pytest_ipperf.lab.access.local import Local


class Namespace(Local):
    """Local access behind the command that enters a node; `hosts.ini` cannot name it, as the lab makes the nodes."""

    keys = frozenset({"node"})
    in_inventory = False


access_method = Namespace()
