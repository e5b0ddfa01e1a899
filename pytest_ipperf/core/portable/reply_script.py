"""Canned replies: the server's side of a transaction, for the null server. Travels to hosts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

DATA_PORT = b"<data port>"
"""Stands in the replies with `data` for the number of the port where that is to be had."""


@dataclass(frozen=True)
class CannedReplies:
    """The canned replies of a server that does nothing else.

    `greeting` is said first; each of `turns` is what has to end the bytes heard since the last one, and the answer. The
    connection is closed after the last. `data`, if there is any, goes out on each connection to a port of its own,
    which is then closed. `asides` count as no turns: what another client may begin to say, and the answer.
    """

    greeting: bytes
    turns: tuple[tuple[bytes, bytes], ...]
    data: bytes | None = None
    asides: tuple[tuple[bytes, bytes], ...] = ()

    def to_bytes(self) -> bytes:
        """As a file, in JSON: each byte a character of its own number."""
        turns, asides = (
            [[part.decode("latin-1") for part in turn] for turn in each] for each in (self.turns, self.asides)
        )
        data = None if self.data is None else self.data.decode("latin-1")
        return json.dumps([self.greeting.decode("latin-1"), turns, data, asides]).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> CannedReplies:
        """The inverse of `to_bytes`."""
        greeting, turns, moved, asides = json.loads(data)
        made, beside = (
            tuple((ending.encode("latin-1"), answer.encode("latin-1")) for ending, answer in each)
            for each in (turns, asides)
        )
        return cls(greeting.encode("latin-1"), made, None if moved is None else moved.encode("latin-1"), beside)

    def with_port(self, port: int) -> CannedReplies:
        """The same with the number of the data's port in its place."""
        turns = tuple((ending, answer.replace(DATA_PORT, b"%d" % port)) for ending, answer in self.turns)
        return replace(self, turns=turns)
