"""Native: IPv4 or IPv6 straight on the link."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.transports.base import CLIENT, SERVER, Path, Place, Transport


class Native(Transport):
    """Nothing has to be made; an IPv6 path is told, as that of IPv4 is the hosts' own."""

    def path(self, hosts: Mapping[str, Place], prefixes: tuple[str, ...]) -> Path:
        del prefixes
        return Path(hosts[CLIENT].ipv6, hosts[SERVER].ipv6)


transport = Native(
    name="native",
    title="native",
    ipvers=(4, 6),
    overhead_bytes=0,
    encapsulated=False,
    rank=0,
    source="RFC 791, RFC 8200",
)
