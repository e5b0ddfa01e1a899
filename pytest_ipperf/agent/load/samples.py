"""The figures of a burst, packed as they travel: what either client knows of its connections in the end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol


class Timed(Protocol):
    """What either client knows of a connection in the end; times are `perf_counter` seconds, the last two durations."""

    failure: str
    peer: str
    opened: float
    resolved: float
    connected: float
    first: float
    done: float
    late: float
    behind: float

    @property
    def content_bytes(self) -> int:
        """Return how much content it has moved."""


def moved_bytes(connections: Iterable[Timed]) -> int:
    """Return how many bytes of content the completed connections have moved."""
    return sum(each.content_bytes for each in connections if not each.failure)


def packed(connections: Sequence[Timed], began: float) -> bytes:
    """The completed connections as rows of `PHASES`, native float64, in the order in which they were opened."""
    rows = array("d")
    for each in connections:
        if not each.failure:
            start = each.opened
            rows.extend((
                start - began, each.resolved - start, each.connected - start, each.first - start, each.done - start,
                each.late, each.behind,
            ))  # fmt: skip
    return rows.tobytes()
