"""RTP in a capture, known by what it must be: the version, one source, and numbers that go up by one (RFC 3550)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from pytest_ipperf.core.portable.traffic.model import RtpFormat

_VERSION = 2
_LEAST_SHARE = 0.9
"""Share of the packets that must follow the one before; some are lost, and others come out of order."""
_LEAST_PACKETS = 20
_CLOCKS_HZ = (8000, 11025, 16000, 22050, 32000, 44100, 48000, 90000)
"""Frequencies of RFC 3551, sections 4.5 and 5, and of Opus (RFC 7587)."""
_HEADER = struct.Struct("!BBHII")
_MOST_OFF = 0.1


@dataclass(slots=True)
class RtpTrace:
    """RTP headers found in packets: how many there are, and how many follow the one before."""

    packets: int = 0
    following: int = 0
    kinds: set[int] = field(default_factory=set)
    _first: tuple[int, int] | None = None
    _last: tuple[int, int] = (0, 0)
    _before: tuple[int, int] | None = None

    def note(self, payload: bytes, at_ns: int) -> None:
        """Note the beginning of a datagram's payload, and when it was captured."""
        self.packets += 1
        if len(payload) < _HEADER.size:
            return
        flags, kind, number, stamp, source = _HEADER.unpack_from(payload)
        if flags >> 6 != _VERSION:
            return
        self.kinds.add(kind & 0x7F)
        self.following += self._before == (source, (number - 1) & 0xFFFF)
        self._before = (source, number)
        self._first = self._first or (stamp, at_ns)
        self._last = (stamp, at_ns)

    def form(self) -> RtpFormat | None:
        """Return the format; None if it is no RTP, of more than one payload type, or of an unknown clock."""
        enough = self.packets >= _LEAST_PACKETS and self.following >= _LEAST_SHARE * (self.packets - 1)
        if not enough or len(self.kinds) != 1 or self._first is None:
            return None
        elapsed_s = (self._last[1] - self._first[1]) / 1e9
        seen_hz = ((self._last[0] - self._first[0]) & 0xFFFFFFFF) / elapsed_s if elapsed_s else 0.0
        clock_hz = min(_CLOCKS_HZ, key=lambda each: abs(each - seen_hz))
        if abs(seen_hz - clock_hz) > _MOST_OFF * clock_hz:
            return None
        return RtpFormat(payload_type=min(self.kinds), clock_hz=clock_hz)
