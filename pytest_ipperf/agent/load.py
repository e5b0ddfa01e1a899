"""The order `load`: one run of bursts, its rows packed, its failures counted by kind, its sockets named."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import statistics
import time
from collections import Counter
from typing import Any, Protocol

from pytest_ipperf.agent.counters import cpu_times_s, risen, tcp_trouble
from pytest_ipperf.agent.limits import enough_descriptors, enough_ports
from pytest_ipperf.agent.line import Watch
from pytest_ipperf.agent.order import LoadOrder
from pytest_ipperf.agent.share import BurstTold, Share
from pytest_ipperf.agent.slack import undisturbed

__all__ = ("LoadOrder", "load")

# A server that answers nobody would otherwise cost a deadline for each of hundreds of bursts.
_DEAD_BURSTS = 3


class _Maker(Protocol):
    """Makes the bursts of an order, in this process or in others."""

    def burst(self, number: int) -> BurstTold: ...

    def close(self) -> None: ...


def load(order: LoadOrder, watch: Watch | None = None) -> dict[str, Any]:
    """Runs the order and tells all; `watch` is told when each burst begins and ends.

    What the samples are: `rows` (packed, see `figures.PHASES`), `attempted`, `failed` by kind. What the sockets were:
    `families`, `peers`, `sources`, `dns_retries`. What the client was: `cpu_s` (user and kernel), and `burst_cpu_s` of
    it in the `wall_s` that the bursts took, each to its last figure, on so many `processors`; `lag_s` (the longest that
    its loop took to come round), `peak` (connections in their transactions at once, median of the bursts). What its
    host was: `tcp` (counters of trouble that moved), `host_cpu_s`, `control` (see `Watch`).

    The run ends early after a few bursts in a row of which no connection completed; `attempted` counts what was begun.
    LabError where this host cannot have so many sockets at once, AgentError when a worker dies.
    """
    watch = watch or Watch()
    order = dataclasses.replace(order, workers=min(order.workers, order.connections))
    enough_descriptors(order)
    enough_ports(order)
    run = _Run(order.connections)
    with undisturbed(), contextlib.ExitStack() as stack:
        maker = stack.enter_context(contextlib.closing(_maker(order)))
        tcp, host_cpu, cpu_s = tcp_trouble(), cpu_times_s(), time.process_time()
        for number in range(order.bursts):
            watch.began()
            run.add(maker.burst(number))
            watch.ended()
            if run.dead == _DEAD_BURSTS:
                break
        stack.close()
        cpu_s = time.process_time() - cpu_s
    now = cpu_times_s()
    return {
        **run.told(),
        "cpu_s": cpu_s + run.beside_s,
        "control": watch.control,
        "processors": min(order.workers, len(os.sched_getaffinity(0))),
        "tcp": risen(tcp, tcp_trouble()),
        "host_cpu_s": {name: now[name] - before for name, before in host_cpu.items()},
    }


def _maker(order: LoadOrder) -> _Maker:
    if order.workers == 1:
        return Share(order)
    from pytest_ipperf.agent.crew import Crew  # noqa: PLC0415 - one process has no use for it

    return Crew(order)


class _Run:
    """What the bursts have brought so far; `dead` counts those in a row that completed nothing."""

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._rows: list[bytes] = []
        self._failed, self._peers = Counter[str](), Counter[str]()
        self._sources, self._families = set[str](), set[int]()
        self._retries = 0
        self._lags: list[float] = []
        self._peaks: list[int] = []
        self._cpu_s = self._wall_s = 0.0
        self.beside_s = 0.0
        self.dead = 0

    def add(self, told: BurstTold) -> None:
        self._rows.append(told.rows)
        self._failed += told.failed
        self._peers += told.peers
        self._sources |= told.sources
        self._families |= told.families
        self._retries += told.dns_retries
        self._lags.append(told.lag_s)
        self._peaks.append(told.peak)
        self._cpu_s += told.cpu_s
        self._wall_s += told.wall_s
        self.beside_s += told.beside_s
        self.dead = 0 if told.rows else self.dead + 1

    def told(self) -> dict[str, Any]:
        return {
            "rows": b"".join(self._rows),
            "attempted": len(self._rows) * self._connections,
            "failed": dict(self._failed),
            "families": sorted(socket.AddressFamily(each).name for each in self._families),
            "peers": dict(self._peers),
            "sources": sorted(self._sources),
            "dns_retries": self._retries,
            "burst_cpu_s": self._cpu_s,
            "wall_s": self._wall_s,
            "lag_s": max(self._lags),
            "peak": round(statistics.median(self._peaks)),
        }
