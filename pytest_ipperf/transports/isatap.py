"""ISATAP: IPv6 inside IPv4 within a site; the endpoints follow from the IPv6 addresses (RFC 5214).

With a router, the client reaches the server, which has native IPv6, through it; without one, the server is in the site.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.transports.base import (
    CLIENT,
    ROUTER,
    SERVER,
    HostAddresses,
    HostRoutes,
    NetworkPath,
    Transport,
    TunnelEndpoint,
)

_DEVICE = "ipperf-isatap"
_IDENTIFIER, _UNIVERSAL = 0x5EFE << 32, 1 << 57
_LINK_LOCAL = "fe80::/64"


def isatap_address(prefix: str, ipv4: str) -> str:
    """Return the ISATAP address of an IPv4 host in a prefix of 64 bits (RFC 5214, section 6.1).

    Its interface identifier is `::200:5efe:a.b.c.d` for a globally unique IPv4 address, else `::0:5efe:a.b.c.d`.
    """
    host = ipaddress.IPv4Address(ipv4)
    return str(ipaddress.IPv6Network(prefix)[_IDENTIFIER | (_UNIVERSAL if host.is_global else 0) | int(host)])


class Isatap(Transport):
    """ISATAP; the first of the `prefixes` is the site's, the second the server link's behind a router, if any."""

    def path(self, hosts: Mapping[str, HostAddresses], prefixes: tuple[str, ...]) -> NetworkPath:
        if ROUTER not in hosts:
            return self._host_to_host(hosts, prefixes[0])
        if len(prefixes) < 2:
            raise UsageError("isatap through a router needs two prefixes: the site's and one for the server's link")
        return self._through_router(hosts, *prefixes[:2])

    def carriers(self, server: str, *, router: bool) -> tuple[str, ...]:
        identifier = int(ipaddress.IPv6Address(server)) & (0xFFFFFFFF << 32)
        if identifier & ~_UNIVERSAL == _IDENTIFIER:
            return CLIENT, SERVER
        return (CLIENT, ROUTER) if router else (CLIENT,)

    def _host_to_host(self, hosts: Mapping[str, HostAddresses], site: str) -> NetworkPath:
        roles = (CLIENT, SERVER)
        ends = {role: self._end(site, hosts[role].ipv4) for role in roles}
        client, server = (isatap_address(site, hosts[role].ipv4) for role in roles)
        return NetworkPath(client, server, dict.fromkeys(roles, _DEVICE), ends, carriers=roles)

    def _through_router(self, hosts: Mapping[str, HostAddresses], site: str, behind: str) -> NetworkPath:
        roles, link = (CLIENT, ROUTER), ipaddress.IPv6Network(behind)
        here, router = hosts[CLIENT].ipv4, hosts[ROUTER].ipv4
        server, beyond = str(link[1]), str(link[2])
        back = isatap_address(_LINK_LOCAL, router)
        return NetworkPath(
            client=isatap_address(site, here),
            server=server,
            devices=dict.fromkeys(roles, _DEVICE),
            ends={
                CLIENT: self._end(site, here, router, ((behind, back),)),
                ROUTER: self._end(site, router),
            },
            legs={
                ROUTER: HostRoutes(hosts[SERVER].ipv4, (f"{beyond}/{link.prefixlen}",), forwards=True),
                SERVER: HostRoutes(hosts[CLIENT].ipv4, (f"{server}/{link.prefixlen}",), ((site, beyond),)),
            },
            carriers=roles,
        )

    def _end(self, site: str, local: str, router: str = "", routes: tuple[tuple[str, str], ...] = ()) -> TunnelEndpoint:
        addresses = tuple(f"{isatap_address(prefix, local)}/64" for prefix in (_LINK_LOCAL, site))
        return TunnelEndpoint(self.name, _DEVICE, local, router, addresses, routes)


transport = Isatap(
    name="isatap",
    title="ISATAP",
    ipvers=(6,),
    overhead_bytes=20,
    encapsulated=True,
    rank=2,
    source="RFC 5214",
    routed=True,
    lab_prefixes=("2001:2:0:5e::/64", "2001:2:0:12::/64"),
)
