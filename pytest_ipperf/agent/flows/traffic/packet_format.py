"""Formats of the packets of modelled traffic: each has its stream, its number and the instant of its sending.

The identifier of the run and the stream are 16 bits each. The number is 31 bits, and the highest bit says whether the
packet belongs to the run or to the warm-up. Control packets have the stream `CONTROL`, their kind as number, and a
value in place of the instant. RTP packets (RFC 3550, section 5.1) have identifier and stream as SSRC, and number and
instant in the first 12 bytes of their payload.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator

from pytest_ipperf.core.portable.traffic.model import RtpFormat
from pytest_ipperf.core.portable.traffic.schedule import Packet

HEAD_BYTES = 24
"""Bytes of the longest header; receivers read so many of each packet."""
CONTROL = 0xFFFF
"""Stream of control packets, and the number of streams that can be told apart."""
HELLO, ACCEPT, BEGIN, END = 1, 2, 3, 4
"""Kinds of control packets: near end to far end, its answer, the beginning, and the end with the packets sent."""
COUNTS, NUMBER = 1 << 31, (1 << 31) - 1
"""Bits of a number field: the one of packets that count, and those of the number."""
_RTP_VERSION, _MARKER, _UNASSIGNED = 0x80, 0x80, 127
_STRAY: tuple[int, int, int, bool, int] = (-1, 0, 0, False, 0)

Head = tuple[int, int, int, bool, int]
"""Identifier, stream, number, whether it belongs to the run, and the instant of sending in ns."""


class PacketFormat(ABC):
    """Format of packets in datagrams."""

    least_bytes: int
    """Size of the smallest packet."""

    @abstractmethod
    def pack(self, buffer: bytearray, ident: int, packet: Packet, at_ns: int, *, counts: bool) -> None:
        """Write the header of a packet, sent at `at_ns`, to the beginning of a buffer."""

    @abstractmethod
    def heads(self, data: bytes | memoryview) -> Iterator[Head]:
        """Yield the headers of packets, of which `data` has the first HEAD_BYTES each."""

    def control(self, ident: int, kind: int, value: int = 0) -> bytes:
        """Return a control packet."""
        buffer = bytearray(self.least_bytes)
        self.pack(buffer, ident, Packet(0.0, CONTROL, kind, len(buffer), first=False), value, counts=False)
        return bytes(buffer)


class Numbered(PacketFormat):
    """Header of 16 bytes, the smallest packet of D-ITG 2.8.1."""

    _FORM = struct.Struct("!HHIQ")
    _HEAD = struct.Struct("!HHIQ8x")
    least_bytes = _FORM.size

    def pack(self, buffer: bytearray, ident: int, packet: Packet, at_ns: int, *, counts: bool) -> None:
        """Write identifier, stream, number and instant."""
        number = packet.number | COUNTS if counts else packet.number
        self._FORM.pack_into(buffer, 0, ident, packet.stream, number, at_ns)

    def heads(self, data: bytes | memoryview) -> Iterator[Head]:
        """Yield the headers of numbered packets."""
        for ident, stream, number, at_ns in self._HEAD.iter_unpack(data):
            yield ident, stream, number & NUMBER, number >= COUNTS, at_ns


class Rtp(PacketFormat):
    """Header of RTP without contributing sources, padding or extension (RFC 3550, section 5.1).

    The timestamp is the instant at which the packet was due, by the clock of the payload type; the marker is on the
    first packet of a talk spurt (RFC 3551, section 4.1). Control packets have an unassigned payload type.
    """

    _FORM = struct.Struct("!BBHIIQI")
    least_bytes = _FORM.size

    def __init__(self, of: RtpFormat) -> None:
        self._of = of

    def pack(self, buffer: bytearray, ident: int, packet: Packet, at_ns: int, *, counts: bool) -> None:
        """Write the header, then instant and number."""
        kind = _UNASSIGNED if packet.stream == CONTROL else self._of.payload_type | (_MARKER if packet.first else 0)
        time = round(packet.due_s * self._of.clock_hz) & 0xFFFFFFFF
        number = packet.number | COUNTS if counts else packet.number
        source = ident << 16 | packet.stream
        self._FORM.pack_into(buffer, 0, _RTP_VERSION, kind, packet.number & 0xFFFF, time, source, at_ns, number)

    def heads(self, data: bytes | memoryview) -> Iterator[Head]:
        """Yield the headers of RTP packets; those of another version are stray."""
        for version, _, _, _, source, at_ns, number in self._FORM.iter_unpack(data):
            if version == _RTP_VERSION:
                yield source >> 16, source & 0xFFFF, number & NUMBER, number >= COUNTS, at_ns
            else:
                yield _STRAY


def packet_format(rtp: RtpFormat | None) -> PacketFormat:
    """Return the format of a model's packets in datagrams."""
    return Rtp(rtp) if rtp else Numbered()
