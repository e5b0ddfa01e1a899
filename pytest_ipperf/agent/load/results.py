"""Results of bursts, and how they are merged: of several processes, of several hosts, and of all bursts of a run."""

from __future__ import annotations

import socket
import statistics
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pytest_ipperf.protocols.base import PHASES

_ROW = struct.Struct(f"{len(PHASES)}d")
_INDEX = struct.Struct("Q")
_START, _CONNECT, _TOTAL = (PHASES.index(name) for name in ("start", "connect", "total"))


@dataclass(frozen=True)
class BurstResult:
    """Result of one burst: its rows, what its sockets were, and the client's own part in it.

    `indices` are the indices of the connections of its rows, in the same order, as unsigned integers of 64 bits.
    `cpu_s` is its processor time, user and kernel, `wall_s` how long it took to its last figure. `woke_s` is how long
    after the instant that it was given it really began; 0 where it was given none. `workers_cpu_s` is all the processor
    time of processes other than this one, the making of the burst included. `content_bytes` came, or were taken by the
    server, in the completed connections.
    """

    rows: bytes
    failed: Counter[str]
    peers: Counter[str]
    sources: frozenset[str]
    families: frozenset[int]
    dns_retries: int
    lag_s: float
    peak: int
    cpu_s: float
    wall_s: float
    indices: bytes
    woke_s: float = 0.0
    workers_cpu_s: float = 0.0
    content_bytes: int = 0

    def to_message(self) -> dict[str, Any]:
        """Return plain data, as it is sent."""
        counted = {"failed": dict(self.failed), "peers": dict(self.peers)}
        return {**vars(self), **counted, "sources": sorted(self.sources), "families": sorted(map(int, self.families))}

    @classmethod
    def from_message(cls, message: dict[str, Any], later_s: float) -> BurstResult:
        """Return the result that a message holds, with all instants `later_s` later."""
        rows = message["rows"]
        if later_s:
            moved = ((row[_START] + later_s, *row[_START + 1 :]) for row in _ROW.iter_unpack(rows))
            rows = b"".join(_ROW.pack(*row) for row in moved)
        return cls(
            **{
                **message,
                "rows": rows,
                "failed": Counter(message["failed"]),
                "peers": Counter(message["peers"]),
                "sources": frozenset(message["sources"]),
                "families": frozenset(message["families"]),
                "wall_s": message["wall_s"] + later_s,
            }
        )


def merged(results: Sequence[BurstResult]) -> BurstResult:
    """Merge the results of one burst's workers, as if one process had run it all."""
    numbered = sorted(
        (
            (row, index)
            for each in results
            for row, (index,) in zip(_ROW.iter_unpack(each.rows), _INDEX.iter_unpack(each.indices), strict=True)
        ),
        key=lambda pair: pair[0][_START],
    )
    rows = [row for row, _ in numbered]
    return BurstResult(
        rows=b"".join(_ROW.pack(*row) for row in rows),
        indices=b"".join(_INDEX.pack(index) for _, index in numbered),
        failed=sum((each.failed for each in results), Counter[str]()),
        peers=sum((each.peers for each in results), Counter[str]()),
        sources=frozenset().union(*(each.sources for each in results)),
        families=frozenset().union(*(each.families for each in results)),
        dns_retries=sum(each.dns_retries for each in results),
        lag_s=max(each.lag_s for each in results),
        peak=max(peak_concurrency(rows), *(each.peak for each in results)),
        cpu_s=sum(each.cpu_s for each in results),
        wall_s=max(each.wall_s for each in results),
        woke_s=max(each.woke_s for each in results),
        workers_cpu_s=sum(each.workers_cpu_s for each in results),
        content_bytes=sum(each.content_bytes for each in results),
    )


def peak_concurrency(rows: Sequence[tuple[float, ...]]) -> int:
    """Return the largest number of completed connections that were in their transactions at once."""
    ends = [(row[_START] + row[_TOTAL], -1) for row in rows]
    begins = [(row[_START] + row[_CONNECT], 1) for row in rows]
    return max(accumulate(step for _, step in sorted(begins + ends)), default=0)


class RunTotals:
    """Sum of the results of a run's bursts, each of so many connections."""

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._rows: list[bytes] = []
        self._indices: list[bytes] = []
        self._failed, self._peers = Counter[str](), Counter[str]()
        self._sources, self._families = set[str](), set[int]()
        self._retries = 0
        self._lags: list[float] = []
        self._peaks: list[int] = []
        self._cpu_s = self._wall_s = 0.0
        self.workers_cpu_s = 0.0
        self._content_bytes = 0

    def add(self, result: BurstResult) -> None:
        """Add the result of one burst."""
        self._rows.append(result.rows)
        self._indices.append(result.indices)
        self._failed += result.failed
        self._peers += result.peers
        self._sources |= result.sources
        self._families |= result.families
        self._retries += result.dns_retries
        self._lags.append(result.lag_s)
        self._peaks.append(result.peak)
        self._cpu_s += result.cpu_s
        self._wall_s += result.wall_s
        self.workers_cpu_s += result.workers_cpu_s
        self._content_bytes += result.content_bytes

    def result(self) -> dict[str, Any]:
        """Return the result of the run, as `load` returns it."""
        return {
            "rows": b"".join(self._rows),
            "indices": b"".join(self._indices),
            "attempted": len(self._rows) * self._connections,
            "failed": dict(self._failed),
            "families": sorted(socket.AddressFamily(each).name for each in self._families),
            "peers": dict(self._peers),
            "sources": sorted(self._sources),
            "dns_retries": self._retries,
            "burst_cpu_s": self._cpu_s,
            "wall_s": self._wall_s,
            "content_bytes": self._content_bytes,
            "lag_s": max(self._lags),
            "peak": round(statistics.median(self._peaks)),
        }
