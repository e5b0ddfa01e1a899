"""Encapsulation of IPv6 in IPv4: destinations, and packets to accept (RFC 4213, section 3; RFC 5214, section 7).

Pure: bytes in, bytes out. The forwarder uses these rules, and the BPF programs are tested against them.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address

from pytest_ipperf.transports.base import TunnelEndpoint

PROTOCOL = 41
OUTER_BYTES, INNER_BYTES = 20, 40
LONGEST_PAYLOAD = 0xFFFF - OUTER_BYTES - INNER_BYTES
"""Largest payload of an IPv6 packet that still fits into an IPv4 one."""
ISATAP_IDENTIFIERS = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")
"""Prefixes of the IPv4 address in an interface identifier (RFC 5214, section 6.1)."""
DONT_FRAGMENT, _FRAGMENT = 0x4000, 0x3FFF
LOOPBACK, FIRST_MULTICAST = 127, 224
"""First bytes of IPv4 addresses; from the second on they are multicast, reserved, or broadcast."""
_CE = 3
_ZERO = bytes(8)


@dataclass(frozen=True)
class EncapsulationRules:
    """Rules of one endpoint, with packed addresses; `remote` is empty if there is none."""

    local: bytes
    remote: bytes
    isatap: bool
    ttl: int

    @classmethod
    def of(cls, end: TunnelEndpoint) -> EncapsulationRules:
        """Return the rules of a tunnel endpoint."""
        remote = IPv4Address(end.remote).packed if end.remote else b""
        return cls(IPv4Address(end.local).packed, remote, end.transport == "isatap", end.ttl)

    def destination(self, packet: bytes) -> bytes:
        """Return the IPv4 destination of an IPv6 packet; empty if it must not be sent.

        With ISATAP it is the address in the IPv6 destination, else the potential router's; there is no multicast.
        """
        to = self.remote
        if self.isatap:
            if packet[24] == 0xFF:
                return b""
            if packet[32:36] in ISATAP_IDENTIFIERS:
                to = packet[36:40]
        return to if to != self.local and usable(to) else b""

    def encapsulated(self, packet: bytes) -> bytes:
        """Return the IPv4 packet for an IPv6 one; empty if it must not be sent."""
        if len(packet) < INNER_BYTES or packet[0] >> 4 != 6:
            return b""
        length, to = packet[4] << 8 | packet[5], self.destination(packet)
        if not to or length > LONGEST_PAYLOAD:
            return b""
        return outer(self.local, to, (packet[0] << 4 | packet[1] >> 4) & 0xFF, self.ttl, length + INNER_BYTES) + packet

    def decapsulated(self, packet: bytes, others: Container[bytes] = ()) -> bytes | None:
        """Return the IPv6 packet in an IPv4 one; None if that is not for this endpoint, empty if it must be dropped.

        `others` are the peers of this host's configured tunnels, which take precedence over ISATAP (RFC 5214, section
        7.3).
        """
        if len(packet) < OUTER_BYTES + INNER_BYTES or packet[0] != 0x45 or packet[9] != PROTOCOL:
            return None
        source, inner = packet[12:16], packet[OUTER_BYTES:]
        if packet[16:20] != self.local or not self._sent_by(source, inner, others) or not _whole(packet):
            return None
        if not valid_source(inner[8:24]):
            return b""
        return inner if packet[1] & _CE != _CE else congested(inner)

    def _sent_by(self, source: bytes, inner: bytes, others: Container[bytes]) -> bool:
        if self.isatap and source in others:
            return False
        if source == self.remote:
            return True
        embedded = inner[16:20] in ISATAP_IDENTIFIERS and inner[20:24] == source
        return self.isatap and embedded and source != self.local and usable(source)


def usable(ipv4: bytes) -> bool:
    """Return whether this can be the address of another host: not 0.0.0.0/8, loopback, multicast or broadcast."""
    return bool(ipv4) and ipv4[0] not in (0, LOOPBACK) and ipv4[0] < FIRST_MULTICAST


def valid_source(ipv6: bytes) -> bool:
    """Return whether a packet from a tunnel may have this source (RFC 4213, section 3.6)."""
    if ipv6[:8] != _ZERO:
        return ipv6[0] != 0xFF
    # The unspecified address, but no other IPv4-compatible one (such as loopback), and no IPv4-mapped one.
    return not any(ipv6) if ipv6[8:12] == _ZERO[:4] else ipv6[8:12] != b"\0\0\xff\xff"


def congested(inner: bytes) -> bytes:
    """Return a packet whose outer header met congestion; empty if its ends do not support ECN (RFC 6040)."""
    return inner[:1] + bytes((inner[1] | 0x30,)) + inner[2:] if inner[1] & 0x30 else b""


@lru_cache(maxsize=1 << 14)
def outer(source: bytes, to: bytes, traffic_class: int, ttl: int, length: int) -> bytes:
    """Return the IPv4 header for `length` bytes; its identification is 0, as it is never fragmented (RFC 6864)."""
    head = struct.pack("!BBHHHBB", 0x45, traffic_class, length + OUTER_BYTES, 0, DONT_FRAGMENT, ttl, PROTOCOL)
    # A ones' complement sum of 16-bit words is the number modulo 65535 (RFC 1071).
    total = int.from_bytes(head + source + to, "big") % 0xFFFF
    return head + struct.pack("!H", (0xFFFF - total) % 0xFFFF) + source + to


def _whole(packet: bytes) -> bool:
    """Return whether the IPv4 header is valid, the packet no fragment, and its IPv6 packet complete."""
    length = packet[2] << 8 | packet[3]
    return (
        not (packet[6] << 8 | packet[7]) & _FRAGMENT
        and packet[OUTER_BYTES] >> 4 == 6
        and (packet[24] << 8 | packet[25]) + OUTER_BYTES + INNER_BYTES <= length <= len(packet)
        and int.from_bytes(packet[:OUTER_BYTES], "big") % 0xFFFF == 0
    )
