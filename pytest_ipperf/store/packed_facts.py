"""Facts of events in a tenth of their memory, for sessions with hundreds of thousands of runs."""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, overload

from pytest_ipperf.store.log.migration import Facts


class PackedFacts(Sequence[Facts]):
    """The facts of a workload's events, which hold nothing but plain values; once packed, each access unpacks them."""

    def __init__(self) -> None:
        self._facts: list[Facts] = []
        self._packed = b""

    def append(self, facts: Facts) -> None:
        """Add the facts of an event."""
        if self._packed:
            self._facts, self._packed = self._unpacked(), b""
        self._facts.append(facts)

    def pack(self) -> None:
        """Pack what was added so far."""
        self._packed = zlib.compress(marshal.dumps(list(self)))
        self._facts = []

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._unpacked())

    @overload
    def __getitem__(self, at: int) -> Facts: ...
    @overload
    def __getitem__(self, at: slice) -> list[Facts]: ...
    def __getitem__(self, at: Any) -> Any:
        """Return the facts of one event or of several."""
        return self._unpacked()[at]

    def __iter__(self) -> Iterator[Facts]:
        """Iterate over the facts in the order of the events."""
        return iter(self._unpacked())

    def _unpacked(self) -> list[Facts]:
        if not self._packed:
            return self._facts
        found: list[Facts] = marshal.loads(zlib.decompress(self._packed))  # noqa: S302 - of this process
        return found
