"""Capture files and frames made by hand."""

from __future__ import annotations

import struct

CLIENT, SERVER = b"\xc6\x12\x00\x01", b"\xc6\x12\x01\x02"
CLIENT6, SERVER6 = (b"\x20\x01\x00\x02" + bytes(11) + end for end in (b"\x01", b"\x02"))
ETHERNET = bytes(12)


def udp(size, source=4000, target=5004, payload=b""):
    """Return a UDP header and what was captured of a payload of `size` bytes."""
    return struct.pack("!HHHH", source, target, 8 + size, 0) + payload.ljust(size, b"\0")


def tcp(size, sequence=0, flags=0x18, source=4000, target=80):
    """Return a TCP header of 32 bytes, with options, and its payload."""
    return struct.pack("!HHIIBBHHH", source, target, sequence, 0, 8 << 4, flags, 0, 0, 0) + bytes(12 + size)


def ipv4(protocol, data, source=CLIENT, target=SERVER, *, fragment=0, options=b"", length=None):
    """Return an IPv4 packet (RFC 791)."""
    words = 5 + len(options) // 4
    whole = 4 * words + len(data) if length is None else length
    header = struct.pack("!BBHHHBBH", 4 << 4 | words, 0, whole, 0, fragment, 64, protocol, 0)
    return header + source + target + options + data


def ipv6(following, data, source=CLIENT6, target=SERVER6, *, length=None):
    """Return an IPv6 packet (RFC 8200)."""
    whole = len(data) if length is None else length
    return struct.pack("!IHBB", 6 << 28, whole, following, 64) + source + target + data


def ethernet(packet):
    """Return an Ethernet frame."""
    return ETHERNET + (b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00") + packet


def pcap(frames, link_type=1, order="<", *, nano=False):
    """Return a pcap file of frames, each a time in ns and its bytes."""
    unit_ns = 1 if nano else 1000
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    found = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262144, link_type)]
    for at_ns, data in frames:
        seconds, rest_ns = divmod(at_ns, 10**9)
        found += [struct.pack(f"{order}IIII", seconds, rest_ns // unit_ns, len(data), len(data)), data]
    return b"".join(found)


def block(kind, body, order="<"):
    """Return a block of pcapng."""
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, 12 + len(body)) + body + struct.pack(f"{order}I", 12 + len(body))


def option(code, value, order="<"):
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type=1, order="<", options=b""):
    return block(1, struct.pack(f"{order}HHI", link_type, 0, 0) + options, order)


def enhanced(ticks, data, order="<", place=0, kept=None):
    """Return an enhanced packet block."""
    length = len(data) if kept is None else kept
    return block(
        6, struct.pack(f"{order}IIIII", place, ticks >> 32, ticks & 0xFFFFFFFF, length, len(data)) + data, order
    )
