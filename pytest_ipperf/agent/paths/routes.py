"""Facts of a path as a host sees them: counters, routes, and the packet sizes that fit.

The expectations, and the verdict on them, are in `pytest_ipperf.core.measurement.path_proof`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.kernel.netlink import ask, attribute, attributes
from pytest_ipperf.agent.sockets.filters import (
    KIND,
    LOAD_BYTE,
    LOAD_HALF,
    LOAD_LENGTH,
    NETWORK,
    PROTOCOL,
    Condition,
    accepting,
    attach,
)
from pytest_ipperf.core.portable import dns

_ETH_P_ALL, _ETH_P_IP, _ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
_PACKET_HOST, _PACKET_OUTGOING = 0, 4
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_RTM_GETROUTE = 26
_RTA_DST, _RTA_SRC, _RTA_IIF, _RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC, _RTA_METRICS = 1, 2, 3, 4, 5, 7, 8
_RTAX_MTU, _RTAX_ADVMSS = 2, 8
_SIOCGIFMTU, _SIOCGIFHWADDR = 0x8921, 0x8927
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 23, 3
# Three round trips with address resolution at each hop first, on links with the longest delay.
_PROBE_TRIES, _PROBE_WAIT_S = 6, 0.5
_NO_ANSWER = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPERM, errno.EACCES}


class PacketCount:
    """Counter of the packets of one kind, fragments too, that this host receives and sends, on one device or on all.

    One packet socket for each direction has a filter: the kernel counts, and nothing is read. The sockets listen to all
    protocols, as the kernel shows them a packet before any program at a device's ingress takes it, and after any
    program at its egress has made it. A segment to be split by the device, or never, counts as one packet; a packet
    that passes several devices of this host counts at each of them.
    """

    def __init__(self, conditions: Sequence[Condition], device: str = "") -> None:
        self._socks: dict[str, socket.socket] = {}
        with contextlib.suppress(PermissionError):
            for direction, kind in (("in", _PACKET_HOST), ("out", _PACKET_OUTGOING)):
                protocol = 0 if device else socket.htons(_ETH_P_ALL)
                self._socks[direction] = sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, protocol)
                attach(sock, accepting([(LOAD_HALF, KIND, kind, True), *conditions]))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # nobody reads the queue
                if device:
                    sock.bind((device, _ETH_P_ALL))
            self.count()

    def count(self) -> dict[str, int] | None:
        """Return the packets since the last call, `in` and `out`; None if this user may not count them."""
        if not self._socks:
            return None
        return {
            direction: struct.unpack("II", sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[0]
            for direction, sock in self._socks.items()
        }

    def close(self) -> None:
        """Stop counting."""
        for sock in self._socks.values():
            sock.close()
        self._socks = {}


class Protocol41(PacketCount):
    """Counter of IPv4 packets of protocol 41 (IPv6 in IPv4, RFC 4213), on all devices."""

    def __init__(self) -> None:
        super().__init__([(LOAD_HALF, PROTOCOL, _ETH_P_IP, True), (LOAD_BYTE, NETWORK + 9, socket.IPPROTO_IPV6, True)])


class BareIpv6(PacketCount):
    """Counter of a device's IPv6 packets that are not encapsulated, without ICMPv6 and packets with hop-by-hop options.

    The excluded ones are neighbour and router discovery, and the joining of groups.
    """

    def __init__(self, device: str) -> None:
        others = [(LOAD_BYTE, NETWORK + 6, each, False) for each in (socket.IPPROTO_ICMPV6, socket.IPPROTO_HOPOPTS)]
        super().__init__([(LOAD_HALF, PROTOCOL, _ETH_P_IPV6, True), *others], device)


class MergedPackets(PacketCount):
    """Counter of a device's packets that are larger than its MTU: segments to be split later, or merged on arrival."""

    def __init__(self, device: str) -> None:
        super().__init__([(LOAD_LENGTH, 0, _device_ioctl(device, _SIOCGIFMTU, "i"), True)], device)


def ip_packets() -> dict[str, int]:
    """Return the IP packets sent by this namespace so far, by version (RFC 4293: OutRequests); of ICMP only echoes."""
    tables, counters = _snmp(), _snmp6()
    icmp = tables["Icmp:"]
    found = {"ipv4": tables["Ip:"]["OutRequests"] - icmp["OutMsgs"] + icmp["OutEchos"], "ipv6": 0}
    if counters:
        found["ipv6"] = counters["Ip6OutRequests"] - (counters["Icmp6OutMsgs"] - counters["Icmp6OutEchos"])
    return found


def fragments_made() -> int:
    """Return the fragments that this namespace has made so far, of both IP versions (RFC 4293: OutFragCreates)."""
    return _snmp()["Ip:"]["FragCreates"] + _snmp6().get("Ip6FragCreates", 0)


def _snmp() -> dict[str, dict[str, int]]:
    tables: dict[str, dict[str, int]] = {}
    lines = Path("/proc/net/snmp").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        kind, *keys = names.split()
        tables[kind] = dict(zip(keys, map(int, values.split()[1:]), strict=True))
    return tables


def _snmp6() -> dict[str, int]:
    """Return the counters of IPv6; empty without IPv6."""
    six = Path("/proc/net/snmp6")
    if not six.exists():
        return {}
    return {name: int(value) for name, value in (line.split() for line in six.read_text().splitlines())}


def hardware_type(device: str) -> int:
    """Return the hardware type of a device (linux/if_arp.h)."""
    return _device_ioctl(device, _SIOCGIFHWADDR, "H")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Route to an address; only `error` if there is none.

    `mtu` in bytes and hardware `type` are the device's, `gateway` is empty on the link. The route's own `path_mtu`, set
    or learned, and the segment size `mss` that TCP offers are 0 if it has none.
    """

    device: str = ""
    gateway: str = ""
    source: str = ""
    mtu: int = 0
    type: int = 0
    path_mtu: int = 0
    mss: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """Request for the route to a destination, for packets from `source`, `forwarded` by this host or its own."""

    destination: str
    source: str = ""
    forwarded: bool = False


def requested(request: RouteRequest) -> Route:
    """Return the route that is asked for; a forwarded packet arrives by the device that leads back to its source."""
    arrives = route(request.source).device if request.forwarded else ""
    return route(request.destination, request.source, arrives)


def route(destination: str, source: str = "", arrives: str = "") -> Route:
    """Return the route to an address.

    It may depend on the packets' `source`, and at a router on the device by which they `arrive`. The kernel is asked by
    rtnetlink, as a bare host may have no `ip`.
    """
    family = socket.AF_INET6 if ":" in destination else socket.AF_INET
    given = {_RTA_DST: socket.inet_pton(family, destination)}
    if source:
        given[_RTA_SRC] = socket.inet_pton(family, source)
    bits = [8 * len(given.get(name, b"")) for name in (_RTA_DST, _RTA_SRC)]
    try:
        if arrives:
            given[_RTA_IIF] = struct.pack("=I", socket.if_nametoindex(arrives))
        message = struct.pack("=BBBBBBBBI", family, *bits, 0, 0, 0, 0, 0, 0)
        (answer,) = ask(_RTM_GETROUTE, message + b"".join(attribute(*each) for each in given.items()))
    except OSError as error:
        return Route(error=error.strerror or str(error))
    found = attributes(answer[len(message) :])
    metrics = attributes(found.get(_RTA_METRICS, b""))
    device = socket.if_indextoname(struct.unpack("=I", found[_RTA_OIF])[0])
    return Route(
        device=device,
        gateway=socket.inet_ntop(family, found[_RTA_GATEWAY]) if _RTA_GATEWAY in found else "",
        source=socket.inet_ntop(family, found[_RTA_PREFSRC]) if _RTA_PREFSRC in found else "",
        mtu=_mtu(device, family),
        type=hardware_type(device),
        path_mtu=struct.unpack("=I", metrics.get(_RTAX_MTU, bytes(4)))[0],
        mss=struct.unpack("=I", metrics.get(_RTAX_ADVMSS, bytes(4)))[0],
    )


def _mtu(device: str, family: int) -> int:
    """Return the MTU of a device, which may be smaller for IPv6 (RFC 4861, section 4.6.4)."""
    mtu = _device_ioctl(device, _SIOCGIFMTU, "i")
    ipv6_mtu = Path(f"/proc/sys/net/ipv6/conf/{device}/mtu")
    return min(mtu, int(ipv6_mtu.read_text())) if family == socket.AF_INET6 and ipv6_mtu.exists() else mtu


def _device_ioctl(device: str, request: int, form: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock, request, struct.pack("16s", device.encode()) + bytes(24))
    value: int = struct.unpack_from(form, answer, 16)[0]
    return value


def fit_sizes(mtu: int, ipver: int) -> tuple[int, int]:
    """Return the two probe sizes of a path in bytes: the largest packet that must fit and one that must not (RFC 4821).

    IPv4 cannot carry more than 65535 bytes, however large the device's MTU is.
    """
    largest = mtu if ipver == 6 else min(mtu, 65535)
    return largest, largest + 1


def fits(resolver: str, port: int, name: str, packet_bytes: int) -> str:
    """Return whether one unfragmented packet of that size reaches the name server: `yes`, `too big` or `no answer`.

    Return `silence` if a small one has no answer either. The packet is a padded DNS query with don't-fragment set, so
    it takes the same path as look-ups; any answer shows that it has arrived.
    """
    six = ":" in resolver
    headers = (40 if six else 20) + 8
    if not six and packet_bytes > 65535:
        return "too big"
    rtype = dns.record_type(6 if six else 4)
    found = _probe(resolver, port, dns.query(name, rtype, 1, size=packet_bytes - headers))
    if found == "no answer" and _probe(resolver, port, dns.query(name, rtype, 2)) == "no answer":
        return "silence"
    return found


def _probe(resolver: str, port: int, query: bytes) -> str:
    six = ":" in resolver
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if six:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * len(query))
        sock.settimeout(_PROBE_WAIT_S)
        for _ in range(_PROBE_TRIES):
            try:
                sock.connect((resolver, port))
                sock.send(query)
                if sock.recv(4096)[:2] == query[:2]:
                    return "yes"
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    return "too big"
                if error.errno in _NO_ANSWER:  # known at once, unlike silence, which has been waited for
                    time.sleep(_PROBE_WAIT_S)
                elif not isinstance(error, TimeoutError):
                    raise
    return "no answer"
