"""What a probe says: whose it is and its number, by which its reply is known, and room for the other end's stamps."""

from __future__ import annotations

import hashlib
import struct

Buffer = bytes | bytearray | memoryview

HEAD = struct.Struct("!IIIIqq")
"""Whose; which, from 1 on; whether the far end is to look all the time; of which probe the stamps are, 0 for none; when
that one came to the far end and when its reply left, in ns of the far end's clock, 0 where it does not know.
"""
_WHOSE = struct.Struct("!II")
_NUMBER_AT, _LOOKS_AT, _OF_AT = 4, 8, 12


class Frame:
    """The message of a probe, of which all but the number stays as it is from one to the next."""

    name = "datagram"

    def __init__(self, ident: int, payload_bytes: int, *, looks: bool = False, before: bytes = b"") -> None:
        self.ident = ident & 0xFFFFFFFF
        self._at = self._reply_at = len(before)
        head = HEAD.pack(self.ident, 0, looks, 0, 0, 0)
        filling = hashlib.shake_256(head).digest(payload_bytes - len(head))  # which no link can compress
        self.message = bytearray(before + head + filling)

    def number(self, number: int) -> None:
        """Makes it the probe of that number."""
        struct.pack_into("!I", self.message, self._at + _NUMBER_AT, number)

    def wants(self, number: int) -> None:
        """Asks for the stamps of that one."""
        struct.pack_into("!I", self.message, self._at + _OF_AT, number)

    def answered(self, heard: Buffer, number: int) -> bool:
        """Whether that is the reply to the probe of that number, and not a late one to an earlier."""
        return _WHOSE.unpack_from(heard, self._reply_at) == (self.ident, number)

    def stamps(self, heard: Buffer) -> tuple[int, int, int]:
        """Of which probe a reply brings the stamps, and these."""
        _, _, _, of, came_ns, left_ns = HEAD.unpack_from(heard, self._reply_at)
        return of, came_ns, left_ns


def looks(heard: Buffer) -> bool:
    """Whether the sender wants the far end to look all the time."""
    return bool(HEAD.unpack_from(heard)[2])
