"""Addresses: those of the inventory must be on the host, and routes between them must not use a tunnel."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.addresses import AddressFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation

_TUNNELS = {768: "6in4 or another tunnel", 769: "an IPv6 tunnel", 776: "6in4", 778: "GRE", 65534: "no link layer"}
"""Hardware types of tunnel devices (linux/if_arp.h)."""


class Addresses(Check):
    """Addresses and routes of native arms."""

    topic = "addresses"
    rank = 20
    of_nodes = True

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check each address, and the routes from it."""
        found, host = observed.fact(AddressFacts), observed.host
        if not found or not (host.ipv4 or host.ipv6):
            return
        for address in found.lacking:
            key = "ipv6" if ":" in address else "ipv4"
            yield self.wrong(host.name, f"{key} = {address} is not on this host", "correct the key, or add the address")
        devices = {each.route.device: None for each in found.routes if each.route.device}
        bad = 0
        for each in found.routes:
            route, address = each.route, each.address
            if route.error:
                bad += 1
                yield self.wrong(host.name, f"no route to {address}: {route.error.lower()}", "give it one")
            elif route.type in _TUNNELS:
                bad += 1
                what = f"the route to {address} is device {route.device} ({_TUNNELS[route.type]})"
                yield self.wrong(host.name, what, "native arms need a route by a plain link")
        if not bad and not found.lacking:
            where = " and ".join(filter(None, (host.ipv4, host.ipv6)))
            yield self.well(host.name, f"{where}{' by ' + ', '.join(devices) if devices else ''}")


check = Addresses()
