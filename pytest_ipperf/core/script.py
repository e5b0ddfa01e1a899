"""A script: the server's side of a transaction by rote, for the null server. Travels to hosts."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Script:
    """What a server says that does nothing else.

    `greeting` is said first; each of `turns` is what has to end the bytes heard since the last one, and the answer. The
    connection is closed after the last.
    """

    greeting: bytes
    turns: tuple[tuple[bytes, bytes], ...]

    def to_bytes(self) -> bytes:
        """As a file, in JSON: each byte a character of its own number."""
        turns = [[part.decode("latin-1") for part in turn] for turn in self.turns]
        return json.dumps([self.greeting.decode("latin-1"), turns]).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Script:
        """The inverse of `to_bytes`."""
        greeting, turns = json.loads(data)
        made = tuple((ending.encode("latin-1"), answer.encode("latin-1")) for ending, answer in turns)
        return cls(greeting.encode("latin-1"), made)
