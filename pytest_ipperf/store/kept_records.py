"""Records of a session until its end, when they are shown and compared: compressed, as a day has ten thousand."""

from __future__ import annotations

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store.packed_texts import PackedTexts


class KeptRecords:
    """Records as text, in the order of their cells; those of one session have most of their text in common."""

    def __init__(self) -> None:
        self._texts = PackedTexts()
        self._read: list[Record] = []

    def append(self, text: str) -> None:
        """Keep a record, as `Record.to_json` returns it."""
        self._texts.append(text)
        self._read.clear()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._texts)

    def read(self) -> list[Record]:
        """Return the records; they stay in memory until another one is kept."""
        if not self._read:
            self._read += (Record.from_json(self._texts[number]) for number in range(len(self._texts)))
        return list(self._read)
