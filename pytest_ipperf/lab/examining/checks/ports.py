"""Ports: those of the servers must be free, and no client's."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.examining.checks.base import Check, Finding
from pytest_ipperf.lab.examining.checks.descriptors import MOST
from pytest_ipperf.lab.examining.seen import Seen

_NEEDED = 4  # three for servers, and one for a probe
_SOME = 64


class Ports(Check):
    """The servers' range, and the kernel's own."""

    topic = "ports"
    rank = 15
    of_nodes = True

    def of_host(self, seen: Seen) -> Iterator[Finding]:
        """What is free of the range, and whether the two overlap."""
        limits, found = seen.fact("limits"), seen.fact("ports")
        if not limits or not found or not (seen.host.ipv4 or seen.host.ipv6):
            return
        (low, high), (first, last) = seen.host.ports, limits["ephemeral"]
        free, there = high - low + 1 - len(found["taken"]), last - first + 1
        name, span = seen.host.name, f"{low}-{high}"
        if free < _NEEDED:
            yield self.wrong(name, f"{free} of {span} are free, and servers need {_NEEDED}", "widen key ports")
        elif low <= last and first <= high:
            below = f"{max(1024, first - 10000)}-{first - 1}"
            remedy = f"give the host a range apart, such as ports = {below}"
            yield self.doubtful(name, f"{span} overlaps the ephemeral ports {first}-{last}, which clients take", remedy)
        else:
            yield self.well(name, f"{free} of {span} are free, apart from the {there} ephemeral ones")
        most = seen.host.most_connections or MOST
        if there < most + _SOME:
            remedy = "sysctl net.ipv4.ip_local_port_range='32768 60999'"
            yield self.doubtful(name, f"{there} ephemeral ports are too few for {most} connections", remedy)


check = Ports()
