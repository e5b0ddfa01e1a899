"""Byte strings that a session needs again at its end: compressed, the latest in memory, earlier ones in a file."""

from __future__ import annotations

import os
import tempfile
import weakref
import zlib
from array import array
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import IO

_IN_MEMORY_BYTES = 1 << 18


class Spool:
    """Byte strings that have much in common, by their numbers: 0 for the first that was appended.

    A session of a day has ten thousand, and those of a session of minutes never reach the file. It is a temporary one
    without a name, so that nothing is left behind. While it cannot be written, as on a full disk, all stay in memory.
    """

    def __init__(self) -> None:
        self._common = b""
        self._in_memory: list[bytes] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._ends = array("Q")  # in the file

    def __len__(self) -> int:
        """Return the number of byte strings."""
        return len(self._ends) + len(self._in_memory)

    def append(self, data: bytes) -> int:
        """Keep a byte string and return its number."""
        self._common = self._common or data
        packer = zlib.compressobj(zdict=self._common)
        packed = packer.compress(data) + packer.flush()
        self._in_memory.append(packed)
        self._bytes += len(packed)
        if self._bytes > _IN_MEMORY_BYTES:
            self._write()
        return len(self) - 1

    def __getitem__(self, number: int) -> bytes:
        """Return a byte string; OSError if its file cannot be read, IndexError for a number that no string has."""
        return zlib.decompressobj(zdict=self._common).decompress(self._packed(range(len(self))[number]))

    def __iter__(self) -> Iterator[bytes]:
        """Yield all byte strings in their order."""
        return map(self.__getitem__, range(len(self)))

    def _packed(self, number: int) -> bytes:
        written = len(self._ends)
        if number >= written or self._file is None:
            return self._in_memory[number - written]
        begin = self._ends[number - 1] if number else 0
        return os.pread(self._file.fileno(), self._ends[number] - begin, begin)

    def _write(self) -> None:
        """Move what is in memory to the file; without success it is tried again when as much has come again."""
        self._bytes = 0
        end, left = self._ends[-1] if self._ends else 0, memoryview(b"".join(self._in_memory))
        ends = accumulate(map(len, self._in_memory), initial=end)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as the spool is there
                weakref.finalize(self, self._file.close)
            while left:
                written = os.pwrite(self._file.fileno(), left, end)
                end, left = end + written, left[written:]
        except OSError:
            return
        self._ends.extend(islice(ends, 1, None))
        self._in_memory.clear()
