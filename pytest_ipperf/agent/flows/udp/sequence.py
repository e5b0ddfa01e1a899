"""Precomputed sequence words of datagram headers, as counting them up costs more than sending them.

The lowest 16 bits of the words run through all values in memory, and only the 16 bits above them are rewritten when the
words move on.
"""

from __future__ import annotations

import sys
from array import array

_SPAN = 1 << 16
_BEYOND = 512
"""Most words that can be returned at once."""
_UPPER = 1 if sys.byteorder == "little" else 2  # of the four parts of a word


class SequenceHeaders:
    """Words that share the upper 32 bits of `base`."""

    def __init__(self, base: int) -> None:
        high, self._block = base >> 32, (base & 0xFFFFFFFF) >> 16
        self._high = high
        self._words = memoryview(array("Q", range(base >> 16 << 16, (base >> 16 << 16) + _SPAN + _BEYOND)))
        self._parts = self._words.cast("B").cast("H")

    def words(self, first: int, count: int) -> memoryview:
        """Return `count` words from `first` on, valid until the next call; raise ValueError for another base."""
        block = (first & 0xFFFFFFFF) >> 16
        if block != self._block:
            self._move(block)
        if first >> 32 != self._high or count > _BEYOND:
            raise ValueError(f"{count} words from {first:#x} are not here")
        at = first & 0xFFFF
        return self._words[at : at + count]

    def _move(self, block: int) -> None:
        self._block = block
        for number, places, count in (
            (block, slice(_UPPER, 4 * _SPAN, 4), _SPAN),
            (block + 1, slice(4 * _SPAN + _UPPER, None, 4), _BEYOND),
        ):
            self._parts[places] = memoryview(array("H", [number & 0xFFFF]) * count)
