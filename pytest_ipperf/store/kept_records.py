"""Records of a session until its end, when they are shown and compared: compressed, as a day has ten thousand."""

from __future__ import annotations

import zlib

from pytest_ipperf.core.records.record import Record


class KeptRecords:
    """Records as text, in the order of their cells; those of one session have most of their text in common."""

    def __init__(self) -> None:
        self._common = b""
        self._packed: list[bytes] = []
        self._read: list[Record] = []

    def append(self, text: str) -> None:
        """Keep a record, as `Record.to_json` returns it."""
        data = text.encode()
        self._common = self._common or data
        packer = zlib.compressobj(zdict=self._common)
        self._packed.append(packer.compress(data) + packer.flush())
        self._read.clear()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._packed)

    def read(self) -> list[Record]:
        """Return the records; they stay in memory until another one is kept."""
        if not self._read:
            self._read += (Record.from_json(self._unpacked(each)) for each in self._packed)
        return list(self._read)

    def _unpacked(self, packed: bytes) -> str:
        return zlib.decompressobj(zdict=self._common).decompress(packed).decode()
