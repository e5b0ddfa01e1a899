"""Records of a session until its end, when they are shown and compared."""

from __future__ import annotations

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store.spool import Spool


class KeptRecords:
    """Records as text, in the order of their cells."""

    def __init__(self) -> None:
        self._texts = Spool()
        self._read: list[Record] = []

    def append(self, text: str) -> None:
        """Keep a record, as `Record.to_json` returns it."""
        self._texts.append(text.encode())
        self._read.clear()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._texts)

    def read(self) -> list[Record]:
        """Return the records; they stay in memory until another one is kept, or `release`."""
        if not self._read:
            self._read += (Record.from_json(each.decode()) for each in self._texts)
        return list(self._read)

    def release(self) -> None:
        """Release the records that were read; those of a day take 130 MB, and a second to read again."""
        self._read.clear()
