"""Ports: those of the servers must be free, and outside the clients' ephemeral range."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.limits import LimitFacts
from pytest_ipperf.agent.facts.ports import PortFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.checks.descriptors import MOST
from pytest_ipperf.lab.doctor.observations import HostObservation
from pytest_ipperf.transports.base import CLIENT

_NEEDED = 4  # three for servers, and one for a probe
_SOME = 64
_FIRST, _LAST = 1024, 65535
_APART = _FIRST + 1000
_MOVED = f"ports = {_FIRST}-{_APART - 1} in hosts.ini, then sysctl net.ipv4.ip_local_port_range='{_APART} {_LAST}'"


class Ports(Check):
    """The servers' port range and the kernel's ephemeral range."""

    topic = "ports"
    rank = 15
    of_nodes = True

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check the free ports of the range, its overlap with the ephemeral ports, and their number."""
        limits, ports = observed.fact(LimitFacts), observed.fact(PortFacts)
        if not limits or not ports or not (observed.host.ipv4 or observed.host.ipv6):
            return
        (low, high), (first, last) = observed.host.ports, limits.ephemeral
        free, ephemeral = high - low + 1 - len(ports.taken), last - first + 1
        name, span = observed.host.name, f"{low}-{high}"
        if free < _NEEDED:
            yield self.wrong(name, f"{free} of {span} are free, and a measurement takes {_NEEDED}", "widen key ports")
        elif low <= last and first <= high:
            below = f"{max(_FIRST, first - 10000)}-{first - 1}"
            remedy = f"give the host a range apart, such as ports = {below}" if first > _APART else _MOVED
            yield self.doubtful(name, f"{span} overlaps the ephemeral ports {first}-{last}, which clients take", remedy)
        else:
            yield self.well(name, f"{free} of {span} are free, apart from the {ephemeral} ephemeral ones")
        most = observed.host.most_connections or MOST
        if ephemeral < most + _SOME and any(role.startswith(CLIENT) for role in observed.roles):
            remedy = _more_ports_remedy(observed.host.ports, most + _SOME)
            yield self.doubtful(name, f"{ephemeral} ephemeral ports are too few for {most} connections", remedy)


def _more_ports_remedy(ports: tuple[int, int], needed: int) -> str:
    """Return the remedy that gives a client `needed` ports: a range beside `ports`, or more clients."""
    low, high = ports
    sides = ((_FIRST, low - 1), (high + 1, _LAST))
    first, last = max(sides, key=lambda side: side[1] - side[0])
    if last - first + 1 >= needed:
        return f"sysctl net.ipv4.ip_local_port_range='{first} {last}'"
    most = _LAST - _APART + 1
    if most >= needed:
        return _MOVED
    return f"one client has {most} at most: name more of them in key client, or a smaller max_connections"


check = Ports()
