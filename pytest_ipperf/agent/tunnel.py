"""The end of a tunnel on this host: its device by a backend, then its addresses and routes."""

from __future__ import annotations

import contextlib

from pytest_ipperf.agent import path
from pytest_ipperf.agent.backends import BACKENDS
from pytest_ipperf.agent.changes import Changes
from pytest_ipperf.core.errors import LabError
from pytest_ipperf.transports.base import End, Leg


def raise_tunnel(backend: str, end: End, changes: Changes, stack: contextlib.ExitStack) -> None:
    """Makes the end; LabError where that fails."""
    BACKENDS[backend].up(end, changes, stack)
    for address in end.addresses:
        changes.run(["ip", "-6", "addr", "replace", address, "dev", end.device, "nodad"], None)
    for prefix, hop in end.routes:
        via = ["via", hop] if hop else []
        changes.run(["ip", "-6", "route", "add", prefix, *via, "dev", end.device], None)


def lay_leg(leg: Leg, changes: Changes) -> None:
    """Gives the host what it needs beside a tunnel; LabError where that fails."""
    found = path.route(leg.towards)
    if "error" in found:
        raise LabError(f"no route to {leg.towards}: {found['error']}")
    device = found["device"]
    for address in leg.addresses:
        argv = ["dev", device]
        changes.run(["ip", "-6", "addr", "add", address, *argv, "nodad"], ["ip", "-6", "addr", "del", address, *argv])
    for prefix, hop in leg.routes:
        route = [prefix, *(["via", hop] if hop else []), "dev", device]
        changes.run(["ip", "-6", "route", "add", *route], ["ip", "-6", "route", "del", *route])
    if leg.forwards:
        changes.write("/proc/sys/net/ipv6/conf/all/forwarding", "1")


def marked() -> str:
    """Why this host wants to be looked after; empty where it does not."""
    return ""
