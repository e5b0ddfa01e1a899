"""What tcpdump saw at a device, datagram by datagram, with the kernel's timestamps in ns."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.arena import Host

_MAGIC = 0xA1B23C4D
_HEAD_BYTES, _RECORD = 24, struct.Struct("<IIII")
_ETHERNET_BYTES = 14
_KEY_BYTES = 28  # enough to tell every tool's datagrams apart: a number and a time
_SNAPPED_BYTES = 112
_BUFFER_KIB = 32768
_HOLDS_S = 1.2  # tcpdump reads packets by the block, and a block that is not full after a second


@dataclass(frozen=True)
class Datagram:
    """A complete datagram of one or more fragments: timestamps of the first (`began_ns`) and last (`ended_ns`)."""

    port: int
    payload_bytes: int
    key: bytes
    began_ns: int
    ended_ns: int


@dataclass
class _Parts:
    """The fragments of a datagram so far."""

    began_ns: int
    held_bytes: int = 0
    header: bytes = b""


@dataclass
class Capture:
    """The result of a capture, filled in when it ends."""

    whole: Sequence[Datagram] = ()
    begun: dict[int, int] = field(default_factory=dict)
    """By destination port: the number of datagrams whose first fragment was seen."""

    def of(self, *ports: int) -> list[Datagram]:
        """Return the datagrams to these ports, in the order of their ends."""
        return [each for each in self.whole if each.port in ports]


@contextlib.contextmanager
def watching(host: Host, device: str, way: str, folder: str) -> Iterator[Capture]:
    """Capture UDP that goes `in` or `out` at a device; the capture is filled in at exit."""
    path, capture = Path(folder, f"{host.pid}-{device}-{way}.pcap"), Capture()
    argv = ["tcpdump", "-n", "-i", device, "-Q", way, "-s", str(_SNAPPED_BYTES), "-B", str(_BUFFER_KIB), "-Z", "root"]
    with host.running(*argv, "--time-stamp-precision=nano", "-w", str(path), "udp") as running:
        running.says("listening on")
        yield capture
        time.sleep(_HOLDS_S)
        done = running.stop()
    assert done.number(r"(\d+) packets? dropped by kernel") == 0, done.said
    data = path.read_bytes()
    path.unlink()
    capture.whole, capture.begun = _datagrams(data)


def _datagrams(data: bytes) -> tuple[list[Datagram], dict[int, int]]:
    whole: list[Datagram] = []
    begun: dict[int, int] = {}
    parts: dict[bytes, _Parts] = {}
    for at_ns, frame in _frames(data):
        packet = frame[_ETHERNET_BYTES:]
        ident, offset, more, udp_bytes, udp = _layers(packet)
        if not offset:
            port = int.from_bytes(udp[2:4], "big")
            begun[port] = begun.get(port, 0) + 1
        held = _Parts(at_ns) if not offset and not more else parts.setdefault(ident, _Parts(at_ns))
        held.held_bytes += udp_bytes
        held.header = udp if not offset else held.header
        if held.header and held.held_bytes == int.from_bytes(held.header[4:6], "big"):
            parts.pop(ident, None)
            port, length = struct.unpack_from("!HH", held.header, 2)
            whole.append(Datagram(port, length - 8, held.header[8 : 8 + _KEY_BYTES], held.began_ns, at_ns))
    return whole, begun


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the timestamp in ns and the captured bytes of each frame."""
    assert struct.unpack_from("<I", data)[0] == _MAGIC, "no capture with stamps in ns"
    at = _HEAD_BYTES
    while at < len(data):
        seconds, ns, kept, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size + kept
        yield seconds * 1_000_000_000 + ns, data[at - kept : at]


def _layers(packet: bytes) -> tuple[bytes, int, bool, int, bytes]:
    """Return an IP packet's fragment key, offset, whether more follow, UDP length and UDP bytes (RFC 791, 8200)."""
    if packet[0] >> 4 == 4:
        header = (packet[0] & 15) * 4
        total, ident, place = struct.unpack_from("!HHH", packet, 2)
        return (
            packet[12:20] + ident.to_bytes(2, "big"),
            (place & 0x1FFF) * 8,
            bool(place & 0x2000),
            total - header,
            (packet[header:]),
        )
    (total,) = struct.unpack_from("!H", packet, 4)
    if packet[6] == 44:  # the fragment header
        (place,) = struct.unpack_from("!H", packet, 42)
        return packet[8:40] + packet[44:48], place & 0xFFF8, bool(place & 1), total - 8, packet[48:]
    return b"", 0, False, total, packet[40:]
