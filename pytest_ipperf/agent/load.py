"""The order `load`: one run of bursts, its rows packed, its failures counted by kind, its sockets named."""

from __future__ import annotations

import gc
import resource
import socket
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from pytest_ipperf.agent.burst import Burst, Target, packed
from pytest_ipperf.protocols import PROTOCOLS

# A server that answers nobody would otherwise cost a deadline for each of hundreds of bursts.
_DEAD_BURSTS = 3


@dataclass(frozen=True)
class LoadOrder:
    """All that a client needs to know; plain values, as it travels.

    `resolver` and `source` are literal addresses of the arm's family. `deadline_s` holds for each burst: a connection
    without its end by then has failed. `ident` numbers the first query.
    """

    protocol: str
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


def load(order: LoadOrder) -> dict[str, Any]:
    """Runs the order and tells all: `rows` (packed, see `burst.PHASES`), counts, and what the sockets were.

    The run ends early after a few bursts in a row of which no connection completed; `attempted` counts what was begun.
    Garbage collection rests during the bursts: a collection in one arm's run and not in the other's is noise.
    """
    protocol = PROTOCOLS[order.protocol]
    content = protocol.content(order.payload_bytes)
    family = socket.AF_INET6 if order.ipver == 6 else socket.AF_INET
    target = Target(family, (order.resolver, order.resolver_port), order.name, order.port, order.source)
    rows, failed, peers, sources, families = [], Counter[str](), Counter[str](), set[str](), set[int]()
    retries = attempted = dead = 0
    _enough_descriptors(2 * order.connections + 64)
    gc.collect()
    gc.disable()
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        for number in range(order.bursts):
            talks = [protocol.conversation(content, index) for index in range(order.connections)]
            burst = Burst(target, talks, order.deadline_s, order.ident + number * order.connections)
            burst.run()
            rows.append(packed(burst.connections, burst.began))
            failed.update(each.failure for each in burst.connections if each.failure)
            peers.update(each.peer for each in burst.connections if each.peer)
            sources |= burst.sources
            families |= burst.families
            retries += burst.dns_retries
            attempted += order.connections
            dead = 0 if rows[-1] else dead + 1
            if dead == _DEAD_BURSTS:
                break
    finally:
        gc.enable()
    return {
        "rows": b"".join(rows),
        "attempted": attempted,
        "failed": dict(failed),
        "families": sorted(socket.AddressFamily(each).name for each in families),
        "peers": dict(peers),
        "sources": sorted(sources),
        "dns_retries": retries,
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
    }


def _enough_descriptors(wanted: int) -> None:
    """Raises the soft limit as far as the hard one allows; what then is still too little fails as data, by kind."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ceiling = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < ceiling:
        resource.setrlimit(resource.RLIMIT_NOFILE, (ceiling, hard))
