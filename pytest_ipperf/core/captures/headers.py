"""Headers of a captured packet, from the link to UDP or TCP, also within 6in4 and other IP in IP."""

from __future__ import annotations

import struct
from typing import NamedTuple

from pytest_ipperf.core.portable.errors import UsageError

UDP, TCP = 17, 6
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS = frozenset({0x8100, 0x88A8, 0x9100})
_NULL, _ETHERNET, _RAW_BSD, _RAW_OPENBSD, _LOOP, _COOKED, _RAW, _RAW4, _RAW6, _COOKED2 = (
    0, 1, 12, 14, 108, 113, 101, 228, 229, 276,
)  # fmt: skip
"""Link types, by https://www.tcpdump.org/linktypes.html."""
_BARE_IP = {_NULL: 4, _LOOP: 4, _RAW_BSD: 0, _RAW_OPENBSD: 0, _RAW: 0, _RAW4: 0, _RAW6: 0}
"""Bytes before the IP header, where the first of its bits say the version."""
_IN_IPV4, _IN_IPV6, _FRAGMENT, _AUTHENTICATION = 4, 41, 44, 51
_OPTIONS = frozenset({0, 43, 60, 135})
"""IPv6 extension headers of one form: hop-by-hop, routing, destination options, mobility (RFC 8200, section 4)."""
_MOST_LAYERS = 8
_PAYLOAD_KEPT = 12
"""Bytes of the payload that are returned: a header of RTP."""


class Segment(NamedTuple):
    """UDP datagram or TCP segment: the bytes of its payload, of which `payload` are the first, as far as captured.

    Addresses are packed, 4 or 16 bytes. `sequence` and `opens` (a SYN without ACK) are those of TCP.
    """

    protocol: int
    source: tuple[bytes, int]
    target: tuple[bytes, int]
    size_bytes: int
    payload: bytes
    sequence: int = 0
    opens: bool = False


def segment(link_type: int, data: bytes) -> Segment | None:
    """Return the datagram or segment of a packet; None for other packets, later fragments, and those cut too short.

    Raises UsageError for a link type that is not known.
    """
    if link_type in _BARE_IP:
        return _ip(data[_BARE_IP[link_type] :])
    if link_type == _ETHERNET:
        at = 12
    elif link_type == _COOKED:
        at = 14
    elif link_type == _COOKED2:
        at = 0
    else:
        raise UsageError(
            f"its packets have link type {link_type}, which is not known here; there are Ethernet (1), Linux cooked "
            "(113, 276), raw IP (101, 228, 229) and BSD loopback (0, 108)"
        )
    kind, after = data[at : at + 2], at + 2
    while len(kind) == 2 and struct.unpack("!H", kind)[0] in _VLANS:
        kind, after = data[after + 2 : after + 4], after + 4
    if kind not in (struct.pack("!H", _IPV4), struct.pack("!H", _IPV6)):
        return None
    return _ip(data[20 if link_type == _COOKED2 else after :])


def _ip(data: bytes) -> Segment | None:
    for _ in range(_MOST_LAYERS):
        try:
            found = _ipv4(data) if data[0] >> 4 == 4 else _ipv6(data) if data[0] >> 4 == 6 else None
            if found is None:
                return None
            protocol, source, target, data, length = found
            if protocol not in (_IN_IPV4, _IN_IPV6):
                return _transport(protocol, source, target, data, length)
        except (struct.error, IndexError):
            return None
    return None


_Layer = tuple[int, bytes, bytes, bytes, int]
"""Next protocol, source, destination, and what the packet carries, with its length before the capture cut it."""


def _ipv4(data: bytes) -> _Layer | None:
    length, fragment = struct.unpack_from("!H", data, 2)[0], struct.unpack_from("!H", data, 6)[0]
    header = 4 * (data[0] & 15)
    if fragment & 0x1FFF:  # only the first fragment has ports
        return None
    carried = (length or len(data)) - header  # 0 for a packet beyond 65535 bytes, before its segmentation
    return data[9], data[12:16], data[16:20], data[header:], carried


def _ipv6(data: bytes) -> _Layer | None:
    length, following = struct.unpack_from("!HB", data, 4)
    source, target, at = data[8:24], data[24:40], 40
    length = length or len(data) - at
    while following in _OPTIONS or following in (_FRAGMENT, _AUTHENTICATION):
        if following == _FRAGMENT:
            if struct.unpack_from("!H", data, at + 2)[0] >> 3:
                return None
            size = 8
        else:
            size = 4 * (data[at + 1] + 2) if following == _AUTHENTICATION else 8 * (data[at + 1] + 1)
        following, at, length = data[at], at + size, length - size
    return following, source, target, data[at:], length


def _transport(protocol: int, source: bytes, target: bytes, data: bytes, length: int) -> Segment | None:
    if protocol == UDP:
        source_port, target_port, whole = struct.unpack_from("!HHH", data)
        size = (whole or length) - 8  # that of the whole datagram, also if this is its first fragment
        payload = data[8 : 8 + min(size, _PAYLOAD_KEPT)]
        return Segment(UDP, (source, source_port), (target, target_port), size, payload) if size >= 0 else None
    if protocol == TCP:
        source_port, target_port, sequence, _, offset, flags = struct.unpack_from("!HHIIBB", data)
        size = length - 4 * (offset >> 4)
        opens = flags & 0x12 == 0x02
        return Segment(TCP, (source, source_port), (target, target_port), size, b"", sequence, opens)
    return None
