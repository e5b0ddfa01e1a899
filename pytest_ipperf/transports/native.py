"""Native transport: IPv4 or IPv6 straight on the link."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.transports.base import CLIENT, SERVER, HostAddresses, NetworkPath, Transport


class Native(Transport):
    """Native transport, for which nothing has to be made; the returned path is the IPv6 one."""

    def path(self, hosts: Mapping[str, HostAddresses], prefixes: tuple[str, ...]) -> NetworkPath:
        del prefixes
        return NetworkPath(hosts[CLIENT].ipv6, hosts[SERVER].ipv6)


transport = Native(
    name="native",
    title="native",
    ipvers=(4, 6),
    overhead_bytes=0,
    encapsulated=False,
    rank=0,
    source="RFC 791, RFC 8200",
)
