"""Packets of a capture file: pcap with its four magic numbers, and pcapng.

Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_ipperf.core.portable.errors import UsageError

_MAGIC = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
"""Magic numbers of pcap, with the ns of a time stamp's unit."""
_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_RESOLUTION, _OFFSET = 9, 14
"""Options of an interface: unit of its time stamps, and seconds to add to them."""
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
_MOST_BYTES = 1 << 26
"""Largest packet that is believed; a damaged length is nearly always larger."""
_LINK_TYPE = 0xFFFF
"""Bits of the link type; those above say how long the frame check sequence is."""


class CapturedPacket(NamedTuple):
    """Packet as captured: its time since the epoch, the link type (LINKTYPE_ of tcpdump.org), and its first bytes."""

    at_ns: int
    link_type: int
    data: bytes


@dataclass(slots=True)
class _Interface:
    link_type: int
    ticks_per_s: int = 1_000_000
    offset_s: int = 0


@dataclass(slots=True)
class CaptureReader:
    """Iterable of the packets in a capture file's content.

    After the iteration, `cut` says that the file ends within a packet, as it does if the capturing program was killed.
    Raises UsageError, which names the packet, for content that is no capture or that is damaged.
    """

    content: bytes
    cut: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[CapturedPacket]:
        """Iterate over the packets in their order."""
        head = self.content[:4]
        for magic, name in _COMPRESSED.items():
            if self.content[: len(magic)] == magic:
                raise UsageError(f"it is compressed with {name}; uncompress it first")
        if len(head) < 4:
            raise UsageError(f"it is no capture: it has {len(head)} bytes")
        if head == struct.pack("<I", _SECTION):
            return self._pcapng()
        for order in "<>":
            if unit_ns := _MAGIC.get(struct.unpack(f"{order}I", head)[0]):
                return self._pcap(order, unit_ns)
        raise UsageError(f"it is no pcap or pcapng file: it begins with {head.hex(' ')}")

    def _pcap(self, order: str, unit_ns: int) -> Iterator[CapturedPacket]:
        if len(self.content) < 24:
            raise UsageError(f"it ends within its header, after {len(self.content)} of 24 bytes")
        link_type = struct.unpack_from(f"{order}I", self.content, 20)[0] & _LINK_TYPE
        header, at, number = struct.Struct(f"{order}IIII"), 24, 0
        while at < len(self.content):
            number += 1
            if at + header.size > len(self.content):
                self.cut = True
                return
            seconds, fraction, kept, _ = header.unpack_from(self.content, at)
            self._check(number, kept)
            at += header.size
            if at + kept > len(self.content):
                self.cut = True
                return
            yield CapturedPacket(seconds * 10**9 + fraction * unit_ns, link_type, self.content[at : at + kept])
            at += kept

    def _check(self, number: int, kept: int) -> None:
        if kept > _MOST_BYTES:
            raise UsageError(f"it is damaged at packet {number}, which would have {kept} bytes")

    def _pcapng(self) -> Iterator[CapturedPacket]:
        at, number, order = 0, 0, "<"
        interfaces: list[_Interface] = []
        while at < len(self.content):
            if at + 12 > len(self.content):
                self.cut = True
                return
            kind = struct.unpack_from(f"{order}I", self.content, at)[0]
            if kind == _SECTION:
                order, interfaces = self._byte_order(at), []
            length = struct.unpack_from(f"{order}I", self.content, at + 4)[0]
            if length < 12 or length % 4:
                raise UsageError(f"it is damaged after packet {number}, where a block would have {length} bytes")
            self._check(number, length)
            if at + length > len(self.content):
                self.cut = True
                return
            body = self.content[at + 8 : at + length - 4]
            if kind == _INTERFACE:
                interfaces.append(_interface(order, body))
            elif kind == _SIMPLE_PACKET:
                raise UsageError(f"packet {number + 1} has no time, as its block is a simple one")
            elif kind in (_PACKET, _OLD_PACKET):
                number += 1
                yield self._packet(kind, order, body, interfaces, number)
            at += length

    def _byte_order(self, at: int) -> str:
        found = self.content[at + 8 : at + 12]
        for order in "<>":
            if found == struct.pack(f"{order}I", _BYTE_ORDER_MAGIC):
                return order
        raise UsageError(f"it is damaged: a section's byte order is {found.hex(' ')}")

    def _packet(self, kind: int, order: str, body: bytes, interfaces: list[_Interface], number: int) -> CapturedPacket:
        if len(body) < 20:
            raise UsageError(f"it is damaged at packet {number}, whose block has {len(body)} bytes")
        form = "IIIII" if kind == _PACKET else "HHIIII"
        fields = struct.unpack_from(f"{order}{form}", body)
        place, (high, low, kept, _) = fields[0], fields[-4:]
        if place >= len(interfaces):
            raise UsageError(f"it is damaged at packet {number}, which is from an interface {place} that is not there")
        if kept > len(body) - 20:
            raise UsageError(f"it is damaged at packet {number}, which would have {kept} bytes")
        of = interfaces[place]
        at_ns = (high << 32 | low) * 10**9 // of.ticks_per_s + of.offset_s * 10**9
        return CapturedPacket(at_ns, of.link_type, body[20 : 20 + kept])


def _interface(order: str, body: bytes) -> _Interface:
    if len(body) < 8:
        raise UsageError(f"it is damaged: an interface has {len(body)} bytes")
    found, at = _Interface(struct.unpack_from(f"{order}H", body)[0]), 8
    while at + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, at)
        value = body[at + 4 : at + 4 + length]
        if code == _RESOLUTION and len(value) == 1:
            found.ticks_per_s = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
        elif code == _OFFSET and len(value) == 8:
            found.offset_s = struct.unpack(f"{order}q", value)[0]
        at += 4 + (length + 3) // 4 * 4
    return found
