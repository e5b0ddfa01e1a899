"""RPC methods that run a load or a flow and count its packets."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from pytest_ipperf.agent.flows import runner
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.sockets.ports import open_connections
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping

_POLL_S = 0.005


class RunHandlers(Handlers):
    """Of applications by `load`; of flows in three steps, two of them at the far end."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        context.stack.enter_context(contextlib.closing(rx_timestamping()))
        self._flows = context.stack.enter_context(contextlib.closing(runner.Flows()))

    def load(self, spec: dict[str, Any]) -> dict[str, Any]:
        """One run, with the packets counted around it."""
        reporter = self._context.channel.progress_reporter()
        return self._around(lambda: load(LoadSpec(**spec), reporter))

    def connections_over(self, limit_s: float) -> bool:
        """Wait up to `limit_s` seconds until no TCP connection of this host is open; whether none is.

        Each end of a connection that is over has the other's last packet, so none of them is on its way any more.
        """
        end = time.monotonic() + limit_s
        while open_connections():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_S)
        return True

    def flow_listen(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The far end of a flow listens from now on; return what its near end has to know."""
        return self._flows.listen(spec)

    def flow_run(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The near end's part of a run, with the packets counted around it."""
        reporter = self._context.channel.progress_reporter()

        def run() -> dict[str, Any]:
            reporter.measurement_started()
            report = runner.run(spec, reporter.report_progress)
            reporter.measurement_ended()
            return {**report, "control": reporter.control}

        return self._around(run)

    def flow_finish(self, near: dict[str, Any]) -> dict[str, Any]:
        """The far end's part of a run, whose near end has sent this report."""
        return self._flows.finish(near)

    def _around(self, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the result of a run, and the packets of this host in it."""
        self._context.counters.begin()
        return {**run(), **self._context.counters.run()}


handlers = RunHandlers
