"""Content of transactions: mail messages, large files, and sentences about content that differs. Travels to hosts.

The sentences are short, and the same for the same difference, as failures are counted by them. Large files are made and
compared block by block, so that none is ever whole in memory.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from pytest_ipperf.core.portable.errors import UsageError

_SHOWN_BYTES, _SHOWN_MESSAGE_BYTES = 16, 80
_LINE = b"The quick brown fox jumps over the lazy dog 0123456789.\r\n"
_BLOCK_BYTES = 2**20
_MARK_BYTES = 16
_SEED = 959


def wrong_content(expected: bytes, offset: int, seen: bytes | memoryview) -> str:
    """Describe the first difference of the bytes `seen` at `offset` from the `expected` content.

    Raise ValueError if they do not differ.
    """
    seen = memoryview(seen)
    if expected.startswith(seen, offset):
        raise ValueError(f"{len(seen)} bytes at offset {offset} do not differ from what was expected")
    # The prefixes of `seen` match up to the first difference and none beyond it, so a bisection finds it.
    right = bisect_left(range(len(seen)), 1, key=lambda at: not expected.startswith(seen[: at + 1], offset))
    at, found = offset + right, excerpt(seen[right:])
    if at >= len(expected):
        return f"expected {len(expected)} bytes, seen more that begin with {found}"
    return f"expected {excerpt(memoryview(expected)[at:])} at offset {at} of {len(expected)} bytes, seen {found}"


def wrong_size(expected: bytes, seen_bytes: int, where: str = "") -> str:
    """Describe content that ends too early or is announced with another size; `where` names the source of the size."""
    return f"expected {len(expected)} bytes, seen {seen_bytes}{where and f' {where}'}"


def excerpt(content: bytes | memoryview) -> str:
    """Return the first bytes as printable ASCII in quotes."""
    return repr(bytes(content[:_SHOWN_BYTES])).removeprefix("b")


def message_of(name: str, headers: bytes, payload_bytes: int) -> bytes:
    """Return a message of exactly that size with these headers; raise UsageError if the size is too small."""
    room = payload_bytes - len(headers) - 2
    if room < 0:
        least = len(headers) + 2
        raise UsageError(f"payload {payload_bytes} is too small for {name}, whose message has at least {least} bytes")
    body = (_LINE * (room // len(_LINE) + 1))[:room]
    # A cut in the middle of CR LF would leave a bare CR, which does not end a line (RFC 5322, section 2.3).
    return headers + body.removesuffix(b"\r").ljust(room, b".") + b"\r\n"


def check_message(given: bytes) -> None:
    """Raise UsageError unless all lines of the message end in CR LF (RFC 5322, section 2.1)."""
    if not given.endswith(b"\r\n") or b"\r" in (rest := given.replace(b"\r\n", b"")) or b"\n" in rest:
        begins = given[:_SHOWN_MESSAGE_BYTES].decode("latin-1")
        raise UsageError(f"a message of server_state has a line that does not end in CR LF: {begins!r}")


@dataclass(frozen=True)
class FileContent:
    """Content of a file of `size` bytes; each block of 1 MiB begins with its number."""

    size: int

    def blocks(self) -> Iterator[bytes]:
        """Yield the content from its beginning to its end."""
        for first in range(0, self.size, _BLOCK_BYTES):
            yield _block(first // _BLOCK_BYTES)[: self.size - first]

    def difference(self, offset: int, seen: memoryview) -> str:
        """Describe how the bytes `seen` at `offset` differ from the content; empty if they do not."""
        if offset + len(seen) > self.size:
            return f"expected {self.size} bytes, seen {offset + len(seen)} or more"
        at = 0
        while at < len(seen):
            number, inside = divmod(offset + at, _BLOCK_BYTES)
            part = seen[at : at + _BLOCK_BYTES - inside]
            if inside < _MARK_BYTES:
                part = part[: _MARK_BYTES - inside]
            expected = _filler() if inside >= _MARK_BYTES else _mark(number)
            if not expected.startswith(part, inside):
                return self._first_difference(offset + at, part)
            at += len(part)
        return ""

    def _first_difference(self, offset: int, part: memoryview) -> str:
        number, inside = divmod(offset, _BLOCK_BYTES)
        expected = memoryview(_block(number))[inside:]
        wrong = next(at for at in range(len(part)) if part[at] != expected[at])
        return (
            f"expected {excerpt(expected[wrong:])} at offset {offset + wrong} of {self.size} bytes, "
            f"seen {excerpt(part[wrong:])}"
        )


@cache
def _filler() -> bytes:
    """Return a block of random bytes, so that content that was moved by any number of bytes is different."""
    return random.Random(_SEED).randbytes(_BLOCK_BYTES)  # noqa: S311 - no secret


def _mark(number: int) -> bytes:
    return b"%0*d" % (_MARK_BYTES, number)


def _block(number: int) -> bytes:
    return _mark(number) + _filler()[_MARK_BYTES:]
