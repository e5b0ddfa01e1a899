"""The order `load`: one run of bursts, its rows packed, its failures counted by kind, its sockets named."""

from __future__ import annotations

import gc
import resource
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_ipperf.agent.burst import Burst
from pytest_ipperf.agent.counters import cpu_times_s, risen, tcp_trouble
from pytest_ipperf.agent.datagram import DatagramBurst
from pytest_ipperf.agent.figures import packed
from pytest_ipperf.agent.target import Target
from pytest_ipperf.core.state import ServerState
from pytest_ipperf.protocols import PROTOCOLS

if TYPE_CHECKING:
    from pytest_ipperf.agent.library import LibraryBurst

# A server that answers nobody would otherwise cost a deadline for each of hundreds of bursts.
_DEAD_BURSTS = 3


@dataclass(frozen=True)
class LoadOrder:
    """All that a client needs to know; plain values, as it travels.

    `client` is `lean` or `library`. `resolver` and `source` are literal addresses of the arm's family; without a
    resolver, `name` is an address too, and without a source the kernel chooses one. `deadline_s` holds for each burst:
    a connection without its end by then has failed. `ident` numbers the first query, `first_index` the first
    connection. `hold` keeps finished sessions open until the last one has its figure. `state` is what the server holds,
    as far as a client has to know it.
    """

    protocol: str
    client: str
    payload_bytes: int
    connections: int
    bursts: int
    ipver: int
    resolver: str
    resolver_port: int
    name: str
    port: int
    source: str
    deadline_s: float
    ident: int
    hold: bool = True
    first_index: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)


def load(order: LoadOrder, alive: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Runs the order and tells all; `alive` is called after each burst.

    What the samples are: `rows` (packed, see `figures.PHASES`), `attempted`, `failed` by kind. What the sockets were:
    `families`, `peers`, `sources`, `dns_retries`. What the client was: `cpu_s` (user and kernel) in `wall_s`, `lag_s`
    (the longest that its loop took to come round), `peak` (connections in their transactions at once, median of the
    bursts). What its host was: `tcp` (counters of trouble that moved), `host_cpu_s`.

    The run ends early after a few bursts in a row of which no connection completed; `attempted` counts what was begun.
    Garbage collection rests during the bursts: a collection in one arm's run and not in the other's is noise.
    """
    run = _Run(order)
    _enough_descriptors(run.descriptors + 64)
    gc.collect()
    gc.disable()
    tcp, host_cpu, cpu_s, wall_s = tcp_trouble(), cpu_times_s(), time.process_time(), time.perf_counter()
    try:
        for number in range(order.bursts):
            run.burst(number)
            alive()
            if run.dead == _DEAD_BURSTS:
                break
    finally:
        run.leave()
        gc.enable()
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    now = cpu_times_s()
    return {
        **run.told(),
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "tcp": risen(tcp, tcp_trouble()),
        "host_cpu_s": {name: now[name] - before for name, before in host_cpu.items()},
    }


class _Run:
    """A run under way, and what its bursts have brought so far. `dead` counts those in a row that completed nothing."""

    def __init__(self, order: LoadOrder) -> None:
        self._order = order
        self._protocol = PROTOCOLS[order.protocol]
        self._state = self._protocol.filled(ServerState(**order.state), order.payload_bytes)
        self._target = Target(
            family=socket.AF_INET6 if order.ipver == 6 else socket.AF_INET,
            resolver=(order.resolver, order.resolver_port) if order.resolver else None,
            name=order.name,
            port=order.port,
            source=order.source,
        )
        self._rows: list[bytes] = []
        self._failed, self._peers = Counter[str](), Counter[str]()
        self._sources, self._families = set[str](), set[int]()
        self._retries = 0
        self._lags: list[float] = []
        self._peaks: list[int] = []
        self._staying: list[Burst | LibraryBurst] = []
        self.dead = 0

    @property
    def descriptors(self) -> int:
        """How many sockets are open at once, when most are: a name server's or a data connection's beside each."""
        order = self._order
        return (order.connections + 1) * (order.bursts + 1 if self._protocol.stays else 2)

    def burst(self, number: int) -> None:
        order = self._order
        burst = self._made(number * order.connections)
        burst.run()
        if self._protocol.stays:
            self._staying.append(burst)
        self._rows.append(packed(burst.connections, burst.began))
        self._failed.update(each.failure for each in burst.connections if each.failure)
        self._peers.update(each.peer for each in burst.connections if each.peer)
        self._sources |= burst.sources
        self._families |= burst.families
        self._retries += burst.dns_retries
        self._lags.append(burst.lag_s)
        self._peaks.append(burst.peak)
        self.dead = 0 if self._rows[-1] else self.dead + 1

    def leave(self) -> None:
        """Closes what stays open until the end of the run."""
        for burst in self._staying:
            burst.leave()

    def _made(self, before: int) -> Burst | LibraryBurst:
        """The burst after so many connections of the run."""
        order, count, stay = self._order, self._order.connections, self._protocol.stays
        ident, first = order.ident + before, order.first_index + before
        if order.client == "lean":
            talk, state = self._protocol.conversation, self._state
            talks = [talk(state, index, order.ipver) for index in range(first, first + count)]
            kind = DatagramBurst if self._protocol.datagram else Burst
            return kind(self._target, talks, order.deadline_s, ident, hold=order.hold or stay, stay=stay)
        from pytest_ipperf.agent.library import LibraryBurst  # noqa: PLC0415 - asyncio with it, which lean has no use for

        return LibraryBurst(
            self._target, self._protocol, self._state, count,
            deadline_s=order.deadline_s, first_ident=ident, first_index=first, hold=order.hold or stay, stay=stay,
        )  # fmt: skip

    def told(self) -> dict[str, Any]:
        return {
            "rows": b"".join(self._rows),
            "attempted": len(self._rows) * self._order.connections,
            "failed": dict(self._failed),
            "families": sorted(socket.AddressFamily(each).name for each in self._families),
            "peers": dict(self._peers),
            "sources": sorted(self._sources),
            "dns_retries": self._retries,
            "lag_s": max(self._lags),
            "peak": round(statistics.median(self._peaks)),
        }


def _enough_descriptors(wanted: int) -> None:
    """Raises the soft limit as far as the hard one allows; what then is still too little fails as data, by kind."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ceiling = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < ceiling:
        resource.setrlimit(resource.RLIMIT_NOFILE, (ceiling, hard))
