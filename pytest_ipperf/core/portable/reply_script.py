"""Canned replies: the server's side of a transaction, for the null server. Travels to hosts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

DATA_PORT = b"<data port>"
"""Placeholder in the replies for the number of the port that serves `data`."""


@dataclass(frozen=True)
class CannedReplies:
    """Canned replies of a server that does nothing else.

    `greeting` is sent first. Each of `turns` is the ending of the bytes to wait for since the last turn, and the
    answer; the connection is closed after the last. `data`, if not None, is sent on each connection to a port of its
    own, which is then closed. `asides` are requests that count as no turn, each by its beginning and with its answer.
    """

    greeting: bytes
    turns: tuple[tuple[bytes, bytes], ...]
    data: bytes | None = None
    asides: tuple[tuple[bytes, bytes], ...] = ()

    def to_bytes(self) -> bytes:
        """Return the replies as a JSON file, with each byte as the character of that number."""
        turns, asides = (
            [[part.decode("latin-1") for part in turn] for turn in each] for each in (self.turns, self.asides)
        )
        data = None if self.data is None else self.data.decode("latin-1")
        return json.dumps([self.greeting.decode("latin-1"), turns, data, asides]).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> CannedReplies:
        """Return the replies that `to_bytes` has written."""
        greeting, turns, moved, asides = json.loads(data)
        made, beside = (
            tuple((ending.encode("latin-1"), answer.encode("latin-1")) for ending, answer in each)
            for each in (turns, asides)
        )
        return cls(greeting.encode("latin-1"), made, None if moved is None else moved.encode("latin-1"), beside)

    def with_port(self, port: int) -> CannedReplies:
        """Return the replies with this number in place of the data port's placeholder."""
        turns = tuple((ending, answer.replace(DATA_PORT, b"%d" % port)) for ending, answer in self.turns)
        return replace(self, turns=turns)
