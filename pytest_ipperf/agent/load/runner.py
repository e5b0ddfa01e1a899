"""The order `load`: one run of bursts, its rows packed, its failures counted by kind, its sockets named."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from typing import Any, Protocol

from pytest_ipperf.agent.kernel.counters import cpu_times_s, deltas, tcp_trouble
from pytest_ipperf.agent.kernel.timer_slack import undisturbed
from pytest_ipperf.agent.load.limits import enough_descriptors, enough_ports
from pytest_ipperf.agent.load.results import BurstTold, RunTold
from pytest_ipperf.agent.load.silence import Watch
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.load.worker import Share

# A server that answers nobody would otherwise cost a deadline for each of hundreds of bursts.
_DEAD_BURSTS = 3


class _Maker(Protocol):
    """Makes the bursts of an order, in this process or in others."""

    def ready(self, number: int) -> None: ...

    def begin(self, at: float = 0.0) -> BurstTold: ...

    def close(self) -> None: ...


class Loading:
    """An order under way, until it has been `told`, or at least until `close`.

    LabError where this host cannot have so many sockets at once, AgentError when a worker dies.
    """

    def __init__(self, spec: LoadSpec) -> None:
        self._spec = dataclasses.replace(spec, workers=min(spec.workers, spec.share))
        enough_descriptors(self._spec)
        enough_ports(self._spec)
        self._run = RunTold(spec.share)
        with contextlib.ExitStack() as stack:
            stack.enter_context(undisturbed())
            self._maker = stack.enter_context(contextlib.closing(_maker(self._spec)))
            self._stack = stack.pop_all()
        self._tcp, self._host_cpu, self._cpu_s = tcp_trouble(), cpu_times_s(), time.process_time()

    def ready(self, number: int) -> None:
        """Makes a burst, which begins by the next `begin`."""
        self._maker.ready(number)

    def begin(self, at: float = 0.0) -> BurstTold:
        """Runs it, when the clock says `at`; at once without."""
        told = self._maker.begin(at)
        self._run.add(told)
        return told

    def told(self) -> dict[str, Any]:
        """What its bursts have brought, see `load`; no others follow."""
        self._maker.close()
        cpu_s = time.process_time() - self._cpu_s
        self._stack.close()
        now = cpu_times_s()
        return {
            **self._run.told(),
            "cpu_s": cpu_s + self._run.beside_s,
            "processors": min(self._spec.workers, len(os.sched_getaffinity(0))),
            "tcp": deltas(self._tcp, tcp_trouble()),
            "host_cpu_s": {name: now[name] - before for name, before in self._host_cpu.items()},
        }

    def close(self) -> None:
        """Ends it, told or not; may be called twice."""
        self._stack.close()


class Dead:
    """Counts bursts in a row that completed nothing, of which a few are enough."""

    def __init__(self) -> None:
        self._bursts = 0

    def so(self, *, completed: bool) -> bool:
        """Whether one more makes the run end early."""
        self._bursts = 0 if completed else self._bursts + 1
        return self._bursts == _DEAD_BURSTS


def load(spec: LoadSpec, watch: Watch | None = None) -> dict[str, Any]:
    """Runs the order and tells all; `watch` is told when each burst begins and ends.

    What the samples are: `rows` (packed, see `figures.PHASES`), the `indices` of their connections, `attempted`,
    `failed` by kind, and the `content_bytes` that the completed ones have moved. What the sockets were: `families`,
    `peers`, `sources`, `dns_retries`. What the client was: `cpu_s` (user and kernel), and `burst_cpu_s` of it in the
    `wall_s` that the bursts took, each to its last figure, on so many `processors`; `lag_s` (the longest that its loop
    took to come round), `peak` (connections in their transactions at once, median of the bursts). What its host was:
    `tcp` (counters of trouble that moved), `host_cpu_s`, `control` (see `Watch`).

    The run ends early after a few bursts in a row of which no connection completed; `attempted` counts what was begun.
    LabError where this host cannot have so many sockets at once, AgentError when a worker dies.
    """
    watch, dead = watch or Watch(), Dead()
    with contextlib.closing(Loading(spec)) as loading:
        for number in range(spec.bursts):
            watch.began()
            loading.ready(number)
            told = loading.begin()
            watch.ended()
            if dead.so(completed=bool(told.rows)):
                break
        return {**loading.told(), "control": watch.control}


def _maker(spec: LoadSpec) -> _Maker:
    if spec.workers == 1:
        return Share(spec)
    from pytest_ipperf.agent.load.worker_pool import Crew  # noqa: PLC0415 - one process has no use for it

    return Crew(spec)
