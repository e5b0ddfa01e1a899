"""Results of bursts, and their merging: of several processes, of several hosts, and of all bursts of a run."""

from __future__ import annotations

import socket
import statistics
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from pytest_ipperf.agent.paths.packet_counters import RunPackets
from pytest_ipperf.protocols.base import PHASES

_ROW = struct.Struct(f"{len(PHASES)}d")
_INDEX = struct.Struct("Q")
_START, _CONNECT, _TOTAL = (PHASES.index(name) for name in ("start", "connect", "total"))


@dataclass(slots=True, kw_only=True)  # a frozen one takes three times as long to make, after each of hundreds of bursts
class BurstResult:
    """Result of one burst: its rows, its sockets, and the client's own part in it.

    `indices` are the indices of the connections of its rows, in the same order, as unsigned integers of 64 bits.
    `cpu_s` is its processor time, user and kernel, `wall_s` the time to its last figure. `woke_s` is the delay of its
    begin after the given instant; 0 without one. `workers_cpu_s` is all processor time of other processes, the
    preparation of the burst included. `content_bytes` were received, or accepted by the server, in the completed
    connections.
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

    def later(self, seconds: float) -> BurstResult:
        """Return the same result with all instants later by so many seconds."""
        if not seconds:
            return self
        moved = ((row[_START] + seconds, *row[_START + 1 :]) for row in _ROW.iter_unpack(self.rows))
        rows = b"".join(_ROW.pack(*row) for row in moved)
        return replace(self, rows=rows, wall_s=self.wall_s + seconds)


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
        failed=_total(each.failed for each in results),
        peers=_total(each.peers for each in results),
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


def _total(counts: Iterable[Counter[str]]) -> Counter[str]:
    """Return the sum of counts, in one Counter; `sum` would make one for each of hundreds of bursts."""
    total = Counter[str]()
    for each in counts:
        if each:
            total.update(each)
    return total


def peak_concurrency(rows: Sequence[tuple[float, ...]]) -> int:
    """Return the largest number of completed connections that were in their transactions at once."""
    ends = [(row[_START] + row[_TOTAL], -1) for row in rows]
    begins = [(row[_START] + row[_CONNECT], 1) for row in rows]
    return max(accumulate(step for _, step in sorted(begins + ends)), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Result of a load run on one host, or of several hosts as if they were one.

    The samples: `rows` (packed, see `protocols.base.PHASES`), the `indices` of their connections, `attempted`, `failed`
    by kind, and the `content_bytes` that the completed ones have moved. The sockets: `families`, `peers`, `sources`,
    `dns_retries`. The client: `cpu_s` (user and kernel), and `burst_cpu_s` of it in the `wall_s` of all bursts, each to
    its last figure, on so many `processors`; `lag_s` (the longest time between two polls of its loop), `peak`
    (connections in their transactions at once, median of the bursts). Its host: `tcp` (error counters that moved),
    `host_cpu_s`, `control` (see `ProgressReporter`), and the packets in its `traffic`. In a run by several clients,
    each host's result has its `bursts` instead of `rows` and `indices`.
    """

    rows: bytes
    indices: bytes
    attempted: int
    failed: dict[str, int]
    families: list[str]
    peers: dict[str, int]
    sources: list[str]
    dns_retries: int
    burst_cpu_s: float
    wall_s: float
    content_bytes: int
    lag_s: float
    peak: int
    cpu_s: float
    processors: int
    tcp: dict[str, int]
    host_cpu_s: dict[str, float]
    control: int | None = None
    traffic: RunPackets = field(default_factory=RunPackets)
    bursts: tuple[BurstResult, ...] = ()

    @property
    def completed(self) -> int:
        """Return how many connections completed."""
        return self.attempted - sum(self.failed.values())

    @classmethod
    def of_bursts(
        cls, bursts: Sequence[BurstResult], *, attempted: int, cpu_s: float, processors: int,
        tcp: dict[str, int], host_cpu_s: dict[str, float], control: int | None = None,
        traffic: RunPackets = RunPackets(),  # noqa: B008 - it is frozen
    ) -> LoadResult:  # fmt: skip
        """Return the summed results of a run's bursts, with the given figures of the client and its host."""
        return cls(
            rows=b"".join(each.rows for each in bursts),
            indices=b"".join(each.indices for each in bursts),
            attempted=attempted,
            failed=dict(_total(each.failed for each in bursts)),
            families=sorted(socket.AddressFamily(each).name for each in set().union(*(b.families for b in bursts))),
            peers=dict(_total(each.peers for each in bursts)),
            sources=sorted(set().union(*(each.sources for each in bursts))),
            dns_retries=sum(each.dns_retries for each in bursts),
            burst_cpu_s=sum(each.cpu_s for each in bursts),
            wall_s=sum(each.wall_s for each in bursts),
            content_bytes=sum(each.content_bytes for each in bursts),
            lag_s=max(each.lag_s for each in bursts),
            peak=round(statistics.median(each.peak for each in bursts)),
            cpu_s=cpu_s,
            processors=processors,
            tcp=tcp,
            host_cpu_s=host_cpu_s,
            control=control,
            traffic=traffic,
        )
