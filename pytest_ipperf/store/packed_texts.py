"""Texts that have most of their content in common, compressed in memory."""

from __future__ import annotations

import zlib


class PackedTexts:
    """Texts by their number, from 0; the first one is the dictionary by which all others are compressed."""

    def __init__(self) -> None:
        self._common = b""
        self._packed: list[bytes] = []

    def append(self, text: str) -> int:
        """Keep a text; return its number."""
        data = text.encode()
        self._common = self._common or data
        packer = zlib.compressobj(zdict=self._common)
        self._packed.append(packer.compress(data) + packer.flush())
        return len(self._packed) - 1

    def __len__(self) -> int:
        """Return how many texts are kept."""
        return len(self._packed)

    def __getitem__(self, number: int) -> str:
        """Return a text as it was kept; IndexError behind the last one."""
        return zlib.decompressobj(zdict=self._common).decompress(self._packed[number]).decode()

    @property
    def packed_bytes(self) -> int:
        """Bytes of all compressed texts."""
        return sum(map(len, self._packed))
