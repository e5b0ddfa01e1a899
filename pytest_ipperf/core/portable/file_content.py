"""Content of large files, made and compared block by block, so that no file is ever whole in memory.

Travels to hosts: Python 3.10 alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_ipperf.core.portable.content import excerpt

_BLOCK_BYTES = 2**20
_MARK_BYTES = 16
_SEED = 959
# Random, so that content that was moved by any number of bytes is different.
_BLOCK = random.Random(_SEED).randbytes(_BLOCK_BYTES)  # noqa: S311 - no secret


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
            expected = _BLOCK if inside >= _MARK_BYTES else _mark(number)
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


def _mark(number: int) -> bytes:
    return b"%0*d" % (_MARK_BYTES, number)


def _block(number: int) -> bytes:
    return _mark(number) + _BLOCK[_MARK_BYTES:]
