"""Definition of a transport: how an IP version travels, its cost on the wire, and what it needs on the hosts.

Rule 1: a transport declares and never runs anything; the agents on the hosts carry it out, by one of their backends.
Rule 2: it travels to hosts: standard library only, Python 3.10.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

CLIENT, ROUTER, SERVER = "client", "router", "server"
"""Roles of a testbed's hosts."""


@dataclass(frozen=True)
class HostAddresses:
    """IPv4 and IPv6 addresses of a host on the measured link; empty for a version that it lacks."""

    ipv4: str
    ipv6: str


@dataclass(frozen=True)
class TunnelEndpoint:
    """One end of a tunnel, in plain values, as it travels.

    `device` is its name on the host, `local` the host's own IPv4 address. `remote` is the peer's address (6in4) or the
    potential router's (ISATAP, RFC 5214, section 8.1), empty where there is none. `addresses` of the device include
    their prefix length; `routes` lead through it: each a prefix and its next hop, which is empty on the link itself.
    """

    transport: str
    device: str
    local: str
    remote: str
    addresses: tuple[str, ...]
    routes: tuple[tuple[str, str], ...] = ()
    mtu: int = 1480
    ttl: int = 64


@dataclass(frozen=True)
class HostRoutes:
    """Addresses and routes that a host needs beside tunnels, on the device that leads to `towards`; plain values.

    `addresses` include their prefix length; `routes` are like those of a `TunnelEndpoint`; `forwards` asks the host to
    forward IPv6.
    """

    towards: str
    addresses: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()
    forwards: bool = False


@dataclass(frozen=True)
class NetworkPath:
    """Network path of an arm between the two ends of a testbed.

    `client` and `server` are literal addresses. By role: `devices` are the tunnel devices that the arm's routes use,
    `ends` and `legs` the tunnel endpoints and routes to be made for it (empty where all exist already). `carriers` are
    the hosts that see all of its packets as protocol 41, the client first.
    """

    client: str
    server: str
    devices: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, TunnelEndpoint] = field(default_factory=dict)
    legs: Mapping[str, HostRoutes] = field(default_factory=dict)
    carriers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transport(ABC):
    """Way in which IP travels; each file of this folder offers one as `transport`.

    `overhead_bytes` is added to each packet beside the IP header itself; `encapsulated` says whether its packets travel
    inside IPv4 as protocol 41, which the proof of the path counts; `rank` is its place in tables. `routed` says whether
    it involves a router of the testbed and a prefix behind that router.
    """

    name: str
    title: str
    ipvers: tuple[int, ...]
    overhead_bytes: int
    encapsulated: bool
    rank: int
    source: str
    routed: bool = False
    lab_prefixes: tuple[str, ...] = ()
    """/64 networks of the benchmarking range (RFC 5180) that the built-in lab reserves for it; none: no arm there."""

    @abstractmethod
    def path(self, hosts: Mapping[str, HostAddresses], prefixes: tuple[str, ...]) -> NetworkPath:
        """Return the path between the client and the server among `hosts`, by role; a router may be among them.

        `prefixes` are /64 networks that the testbed reserves for it; raise UsageError if there are too few.
        """

    def carriers(self, server: str, *, router: bool) -> tuple[str, ...]:
        """Return the carriers of the path to `server`, the address of an existing device, perhaps behind a router."""
        del server, router
        return CLIENT, SERVER
