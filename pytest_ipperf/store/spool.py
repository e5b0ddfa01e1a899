"""Byte strings that a session needs again at its end: compressed, the latest in memory, earlier ones in a file."""

from __future__ import annotations

import os
import struct
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from typing import IO

_IN_MEMORY_BYTES = 1 << 18
_LENGTH = struct.Struct("=I")


class Spool:
    """Byte strings that have much in common, by their places: 0 is that of the first, the others increase.

    A session of a day has ten thousand, and those of a session of minutes never reach the file. It is a temporary one
    without a name, so that nothing is left behind. While it cannot be written, as on a full disk, all stay in memory.
    A place is one in the file, in which each length precedes its string: no table of places grows with the session.
    """

    def __init__(self) -> None:
        self._common = b""
        self._in_memory: dict[int, bytes] = {}
        self._file: IO[bytes] | None = None
        self._count = 0
        self._end = self._written = self._tried = 0  # of all, of what is in the file, and at the latest try to write

    def __len__(self) -> int:
        """Return the number of byte strings."""
        return self._count

    def append(self, data: bytes) -> int:
        """Keep a byte string and return its place."""
        self._common = self._common or data
        packer = zlib.compressobj(zdict=self._common)
        packed = packer.compress(data) + packer.flush()
        place = self._end
        self._in_memory[place] = packed
        self._end += _LENGTH.size + len(packed)
        self._count += 1
        if self._end - self._tried > _IN_MEMORY_BYTES:
            self._write()
        return place

    def __getitem__(self, place: int) -> bytes:
        """Return the byte string at a place that `append` has returned; OSError if its file cannot be read."""
        return self._unpacked(self._packed(place))

    def __iter__(self) -> Iterator[bytes]:
        """Yield all byte strings in their order."""
        place = 0
        while place < self._end:
            packed = self._packed(place)
            yield self._unpacked(packed)
            place += _LENGTH.size + len(packed)

    def _unpacked(self, packed: bytes) -> bytes:
        return zlib.decompressobj(zdict=self._common).decompress(packed)

    def _packed(self, place: int) -> bytes:
        if place >= self._written or self._file is None:
            return self._in_memory[place]
        file = self._file.fileno()
        (length,) = _LENGTH.unpack(os.pread(file, _LENGTH.size, place))
        return os.pread(file, length, place + _LENGTH.size)

    def _write(self) -> None:
        """Move what is in memory to the file; without success it is tried again when as much has come again."""
        self._tried, written = self._end, self._written
        left = memoryview(b"".join([_LENGTH.pack(len(each)) + each for each in self._in_memory.values()]))
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as the spool is there
                weakref.finalize(self, self._file.close)
            while left:
                count = os.pwrite(self._file.fileno(), left, written)
                written, left = written + count, left[count:]
        except OSError:
            return
        self._written = written
        self._in_memory.clear()
