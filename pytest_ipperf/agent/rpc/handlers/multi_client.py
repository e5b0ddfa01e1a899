"""RPC methods of a load run by several clients, whose bursts start at given instants."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from itertools import pairwise

from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.agent.load.runner import LoadRun
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers

# By then data sent over the control connection has passed.
_BEFORE_S = 0.002
LATE_S = 0.02
"""Delay of a start above which a client does not begin together with the others."""


class MultiClientHandlers(Handlers):
    """Handlers for one run at a time: it is opened, its bursts are started, and it is closed or aborted."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._under_way = context.stack.enter_context(contextlib.ExitStack())

    def load_open(self, spec: LoadSpec) -> None:
        """Open this host's share of a run, after closing one that was left open."""
        self._under_way.close()
        self._reporter = self._context.channel.progress_reporter()
        self._context.counters.begin()
        self._run = LoadRun(spec)
        self._under_way.callback(self._run.close)

    def load_ready(self, number: int) -> None:
        """Prepare a burst."""
        self._run.prepare(number)

    def load_start(self, number: int, instants_ns: list[int]) -> list[tuple[bool, float]]:
        """Run that burst, and those after it, at these instants of CLOCK_MONOTONIC, in ns.

        Return for each whether any connection completed, and its seconds, preparation included. Stop before a burst
        that is late by more than the others' bursts allow. Results are returned at the end, as other clients may still
        measure.
        """
        done: list[tuple[bool, float]] = []
        apart_ns = max([int(LATE_S * 1e9), *(after - before for before, after in pairwise(instants_ns))])
        for at_ns in instants_ns:
            began_s = time.monotonic()
            if done:
                if time.monotonic_ns() > at_ns + apart_ns:
                    break
                self._run.prepare(number + len(done))
            making_s = time.monotonic() - began_s
            time.sleep(max(0.0, (at_ns - time.monotonic_ns()) * 1e-9 - _BEFORE_S))
            self._reporter.measurement_started()
            result = self._run.run(at_ns * 1e-9)
            self._reporter.measurement_paused()  # the reply is the keep-alive
            done.append((bool(result.rows), making_s + result.wall_s))
        return done

    def load_close(self) -> LoadResult:
        """Return the result of the run like `load`, with the packets counted around it; `bursts` replace its rows."""
        result = self._run.result()
        self._under_way.close()
        return dataclasses.replace(
            result,
            rows=b"",
            indices=b"",
            bursts=tuple(self._run.bursts),
            control=self._reporter.control,
            traffic=self._context.counters.run(),
        )

    def load_abort(self) -> None:
        """Abort a run without a result; no error if none is open."""
        self._under_way.close()


handlers = MultiClientHandlers
