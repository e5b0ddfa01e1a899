"""The figures of a burst, packed as they travel: what either client knows of its connections in the end."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

PHASES = ("start", "dns", "connect", "first_byte", "total", "late", "behind")
"""Columns of the packed samples, in seconds: the start since the burst began, the next four since the start.

The start is when the connection was to be opened, and `behind` is how much later that was done: 0 in a closed burst,
where the clock starts with the opening. `total` contains it.

`late` is how long the segment that ended the transaction had waited in this host's kernel when the client read it; nan
where the kernel did not tell. `total` contains it, as it ends when the client knows.
"""


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
