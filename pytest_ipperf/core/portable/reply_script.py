"""Canned replies: the server's side of a transaction, for the null server. Travels to hosts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

DATA_PORT = b"<data port>"
"""Placeholder in the replies for the number of the port that serves `data`."""


@dataclass(frozen=True)
class CannedDatagram:
    """Answer to a datagram: `reply`, with bytes of the question copied into it.

    Each of `copied` is an offset in the question, an offset in the reply, and a number of bytes. What begins with
    `unanswered`, unless that is empty, gets no answer: two servers must not answer each other's replies for ever.
    """

    reply: bytes
    copied: tuple[tuple[int, int, int], ...] = ()
    unanswered: bytes = b""

    def answer(self, question: bytes) -> bytes:
        """Return the answer, which may be empty; bytes that a short question lacks are zero in it."""
        if self.unanswered and question.startswith(self.unanswered):
            return b""
        made = bytearray(self.reply)
        for start, to, count in self.copied:
            made[to : to + count] = question[start : start + count].ljust(count, b"\0")
        return bytes(made)


@dataclass(frozen=True)
class CannedReplies:
    """Canned replies of a server that does nothing else.

    `greeting` is sent first. Each of `turns` is the ending of the bytes to wait for since the last turn, and the
    answer; the connection is closed after the last. `data`, if not None, is sent on each connection to a port of its
    own, which is then closed. `asides` are requests that count as no turn, each by its beginning and with its answer.
    `datagram` is all that a server over UDP sends; it has neither a greeting nor turns.
    """

    greeting: bytes
    turns: tuple[tuple[bytes, bytes], ...]
    data: bytes | None = None
    asides: tuple[tuple[bytes, bytes], ...] = ()
    datagram: CannedDatagram | None = None

    def to_bytes(self) -> bytes:
        """Return the replies as a JSON file, with each byte as the character of that number."""
        turns, asides = (
            [[part.decode("latin-1") for part in turn] for turn in each] for each in (self.turns, self.asides)
        )
        data = None if self.data is None else self.data.decode("latin-1")
        canned = self.datagram
        whole = canned and [canned.reply.decode("latin-1"), canned.copied, canned.unanswered.decode("latin-1")]
        return json.dumps([self.greeting.decode("latin-1"), turns, data, asides, whole]).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> CannedReplies:
        """Return the replies that `to_bytes` has written."""
        greeting, turns, moved, asides, whole = json.loads(data)
        turn_pairs, aside_pairs = (
            tuple((ending.encode("latin-1"), answer.encode("latin-1")) for ending, answer in each)
            for each in (turns, asides)
        )
        return cls(
            greeting.encode("latin-1"),
            turn_pairs,
            None if moved is None else moved.encode("latin-1"),
            aside_pairs,
            whole
            and CannedDatagram(
                whole[0].encode("latin-1"),
                tuple((a, b, count) for a, b, count in whole[1]),
                whole[2].encode("latin-1"),
            ),
        )

    def with_port(self, port: int) -> CannedReplies:
        """Return the replies with this number in place of the data port's placeholder."""
        turns = tuple((ending, answer.replace(DATA_PORT, b"%d" % port)) for ending, answer in self.turns)
        return replace(self, turns=turns)
