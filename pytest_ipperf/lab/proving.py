"""Proving: the facts of the arms' paths, asked of the hosts' agents, and what a testbed's arms have to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.proof import Expected
from pytest_ipperf.lab.link import Link
from pytest_ipperf.lab.testbed import Testbed
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER


def expected(testbed: Testbed, arm: Arm, *, datagram: bool) -> Expected:
    """What an arm's sockets, packets and routes must be."""
    path = testbed.path(arm)
    devices = {
        role: {name: each.devices[role] for name, each in testbed.paths.items() if role in each.devices}
        for role in testbed.roles
    }
    return Expected(
        ipver=arm.ipver,
        client=path.client,
        server=path.server,
        exclusive=testbed.exclusive,
        datagram=datagram,
        carriers=path.carriers,
        transport=arm.transport,
        devices=devices,
        mtu=path.ends[CLIENT].mtu if CLIENT in path.ends else 0,
        # A full queue before a link with a rate loses packets too, and none of them is met at the port.
    )


def path_facts(testbed: Testbed, links: Mapping[str, Link], arm: Arm, resolver_port: int, name: str) -> dict[str, Any]:
    """The `routes` of an arm at its hosts by role, and what `fits` through it unfragmented to the name server."""
    path = testbed.path(arm)
    routes = {CLIENT: links[CLIENT].order("route", path.server)}
    if path.client:
        back = [SERVER, *([ROUTER] if ROUTER in path.devices else [])]
        routes |= {role: links[role].order("route", path.client) for role in back}
    fits = {}
    if "mtu" in routes[CLIENT]:
        probe = {
            "mtu": routes[CLIENT]["mtu"],
            "ipver": arm.ipver,
            "resolver": path.server,
            "port": resolver_port,
            "name": name,
        }
        fits = links[CLIENT].order("fits", probe)
    return {"routes": routes, "fits": fits}


def ports_of(testbed: Testbed, links: Mapping[str, Link], ipver: int = 4) -> dict[str, str]:
    """By role: the device by which a host reaches the others natively; empty where there is no route."""
    found = {}
    for role, link in links.items():
        other = testbed.server if role == CLIENT else testbed.client
        address = other.address(ipver) or other.address(10 - ipver)
        found[role] = link.order("route", address).get("device", "") if address else ""
    return found
