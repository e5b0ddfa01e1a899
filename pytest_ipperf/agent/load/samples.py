"""Samples of a burst: the timestamps of its connections, packed as float64 rows."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Protocol

_ROW = struct.Struct("7d")


class Timestamps(Protocol):
    """Timestamps of one connection, in `perf_counter` seconds; the last two are durations.

    The columns of the two durations are called `late` and `behind` (see `PHASES`).
    """

    failure: str
    peer: str
    opened: float
    resolved: float
    connected: float
    first: float
    done: float
    rx_delay_s: float
    start_delay_s: float

    @property
    def content_bytes(self) -> int:
        """Return the bytes of content that it has moved."""


def moved_bytes(connections: Iterable[Timestamps]) -> int:
    """Return the bytes of content that the completed connections have moved."""
    return sum(each.content_bytes for each in connections if not each.failure)


def packed(connections: Sequence[Timestamps], began: float) -> bytes:
    """Return the completed connections as rows of `PHASES`, native float64, in the order in which they were opened."""
    return b"".join([
        _ROW.pack(
            (start := each.opened) - began, each.resolved - start, each.connected - start, each.first - start,
            each.done - start, each.rx_delay_s, each.start_delay_s,
        )
        for each in connections if not each.failure
    ])  # fmt: skip
