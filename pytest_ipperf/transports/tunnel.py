"""Configured tunnel: IPv6 inside IPv4 between two endpoints (6in4, RFC 4213)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER, HostAddresses, NetworkPath, Transport, TunnelEndpoint

_DEVICE = "ipperf-6in4"


class Tunnel(Transport):
    """Tunnel between client and server; a router between them just forwards IPv4."""

    def path(self, hosts: Mapping[str, HostAddresses], prefixes: tuple[str, ...]) -> NetworkPath:
        inner = ipaddress.IPv6Network(prefixes[0])
        client, server = str(inner[1]), str(inner[2])
        near, far = hosts[CLIENT].ipv4, hosts[SERVER].ipv4
        return NetworkPath(
            client=client,
            server=server,
            devices=dict.fromkeys((CLIENT, SERVER), _DEVICE),
            ends={
                CLIENT: TunnelEndpoint(self.name, _DEVICE, near, far, (f"{client}/{inner.prefixlen}",)),
                SERVER: TunnelEndpoint(self.name, _DEVICE, far, near, (f"{server}/{inner.prefixlen}",)),
            },
            carriers=tuple(role for role in (CLIENT, ROUTER, SERVER) if role in hosts),
        )


transport = Tunnel(
    name="tunnel",
    title="6in4 tunnel",
    ipvers=(6,),
    overhead_bytes=20,
    encapsulated=True,
    rank=1,
    source="RFC 4213, section 3",
    lab_prefixes=("2001:2:0:41::/64",),
)
