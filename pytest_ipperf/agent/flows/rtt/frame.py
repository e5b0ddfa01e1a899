"""Message of a probe: its run and number, which identify its reply, and room for the far end's timestamps."""

from __future__ import annotations

import hashlib
import struct

Buffer = bytes | bytearray | memoryview

HEAD = struct.Struct("!IIIIqq")
"""Header of a probe.

Its fields are the run; the number, from 1 on; whether the far end should busy-poll; the number of the probe that the
timestamps belong to, 0 for none; and its arrival at the far end and the departure of its reply, in ns of the far end's
clock, 0 if unknown.
"""
_WHOSE = struct.Struct("!II")
_NUMBER_AT, _OF_AT = 4, 12


class Frame:
    """Message of a probe, of which only the number changes from one probe to the next."""

    name = "datagram"

    def __init__(self, ident: int, payload_bytes: int, *, wants_busy_poll: bool = False, before: bytes = b"") -> None:
        self.ident = ident & 0xFFFFFFFF
        self._at = self._reply_at = len(before)
        head = HEAD.pack(self.ident, 0, wants_busy_poll, 0, 0, 0)
        filling = hashlib.shake_256(head).digest(payload_bytes - len(head))  # incompressible
        self.message = bytearray(before + head + filling)

    def set_number(self, number: int) -> None:
        """Set the number of the probe."""
        struct.pack_into("!I", self.message, self._at + _NUMBER_AT, number)

    def request_stamps_of(self, number: int) -> None:
        """Request the timestamps of that probe."""
        struct.pack_into("!I", self.message, self._at + _OF_AT, number)

    def is_reply(self, message: Buffer, number: int) -> bool:
        """Return whether a message is the reply to the probe of that number, and not a late one to an earlier probe."""
        return _WHOSE.unpack_from(message, self._reply_at) == (self.ident, number)

    def reply_stamps(self, message: Buffer) -> tuple[int, int, int]:
        """Return the number of the probe whose timestamps a reply brings, and these timestamps."""
        _, _, _, of, came_ns, left_ns = HEAD.unpack_from(message, self._reply_at)
        return of, came_ns, left_ns


def wants_busy_poll(message: Buffer) -> bool:
    """Return whether the sender wants the far end to busy-poll."""
    return bool(HEAD.unpack_from(message)[2])
