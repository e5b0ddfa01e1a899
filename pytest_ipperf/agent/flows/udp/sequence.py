"""Precompute consecutive sequence words for datagram headers: to count them up costs more than to send them.

A word's lower half of the lower half goes through all its values in that memory, and only the half above it has to be
written when the words move on.
"""

from __future__ import annotations

import sys
from array import array

_SPAN = 1 << 16
_BEYOND = 512
"""At most so many words at once."""
_UPPER = 1 if sys.byteorder == "little" else 2  # of the four parts of a word


class SequenceHeaders:
    """Provides words that begin like `base` in their upper 32 bits."""

    def __init__(self, base: int) -> None:
        high, self._block = base >> 32, (base & 0xFFFFFFFF) >> 16
        self._high = high
        self._words = memoryview(array("Q", range(base >> 16 << 16, (base >> 16 << 16) + _SPAN + _BEYOND)))
        self._parts = self._words.cast("B").cast("H")

    def words(self, first: int, count: int) -> memoryview:
        """So many from that one on; they hold until the next are asked for. ValueError for those of another base."""
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
