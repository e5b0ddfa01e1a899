"""Define a transport: how an IP version travels, what that costs on the wire, and what hosts need for it.

Rule 1: a transport declares and never runs anything; the agents on the hosts carry it out, by one of their backends.
Rule 2: it travels: standard library only, Python 3.10.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

CLIENT, ROUTER, SERVER = "client", "router", "server"
"""The roles of a testbed's hosts."""


@dataclass(frozen=True)
class HostAddresses:
    """The IPv4 and IPv6 addresses of a host on the measured link, empty where it has none."""

    ipv4: str
    ipv6: str


@dataclass(frozen=True)
class TunnelEndpoint:
    """One end of a tunnel. Plain values, as it travels.

    `device` is its name on the host, `local` the host's own IPv4 address. `remote` is the peer's (6in4), or that of the
    potential router (ISATAP, RFC 5214, section 8.1), empty where there is none. `addresses` are the device's, with
    their prefix length; `routes` lead through it: a prefix and the next hop, empty for what is on the link.
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
    """Addresses and routes that a host needs beside tunnels, on the device by which it reaches `towards`; plain values.

    `addresses` with their prefix length, `routes` as those of a `TunnelEndpoint`, and whether the host `forwards` IPv6.
    """

    towards: str
    addresses: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()
    forwards: bool = False


@dataclass(frozen=True)
class NetworkPath:
    """The network path of an arm between the two ends of a testbed.

    `client` and `server` are their literal addresses. By role: the tunnel `devices` that the arm's routes use, the
    `ends` and `legs` that have to be made for it (none where all is there already), and the `carriers`, which meet
    all of its packets as protocol 41, the client first.
    """

    client: str
    server: str
    devices: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, TunnelEndpoint] = field(default_factory=dict)
    legs: Mapping[str, HostRoutes] = field(default_factory=dict)
    carriers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transport(ABC):
    """Each file of this folder offers one as `transport`.

    `overhead_bytes` is what it adds to each packet beside the IP header itself; `encapsulated` says whether its
    packets travel inside IPv4 as protocol 41, which the proof of the path counts; `rank` is its place in tables.
    `routed` says whether a router of the testbed takes part in it, and a prefix behind that.
    """

    name: str
    title: str
    ipvers: tuple[int, ...]
    overhead_bytes: int
    encapsulated: bool
    rank: int
    source: str
    routed: bool = False

    @abstractmethod
    def path(self, hosts: Mapping[str, HostAddresses], prefixes: tuple[str, ...]) -> NetworkPath:
        """The path between the client and the server among `hosts`, by role; they may have a router.

        `prefixes` are IPv6 networks of 64 bits that the testbed sets apart for it. UsageError where they are too few.
        """

    def carriers(self, server: str, *, router: bool) -> tuple[str, ...]:
        """Those of the path to an address on a device that the server has already, perhaps by a router."""
        del server, router
        return CLIENT, SERVER
