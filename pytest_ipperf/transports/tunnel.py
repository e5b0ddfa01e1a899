"""Tunnel: IPv6 in IPv4 between two configured ends (6in4, RFC 4213)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER, End, Path, Place, Transport

_DEVICE = "ipperf-6in4"


class Tunnel(Transport):
    """Client and server are its ends; a router between them forwards IPv4 and knows nothing of it."""

    def path(self, hosts: Mapping[str, Place], prefixes: tuple[str, ...]) -> Path:
        inner = ipaddress.IPv6Network(prefixes[0])
        client, server = str(inner[1]), str(inner[2])
        near, far = hosts[CLIENT].ipv4, hosts[SERVER].ipv4
        return Path(
            client=client,
            server=server,
            devices=dict.fromkeys((CLIENT, SERVER), _DEVICE),
            ends={
                CLIENT: End(self.name, _DEVICE, near, far, (f"{client}/{inner.prefixlen}",)),
                SERVER: End(self.name, _DEVICE, far, near, (f"{server}/{inner.prefixlen}",)),
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
)
