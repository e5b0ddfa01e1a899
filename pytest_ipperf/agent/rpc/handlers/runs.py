"""Orders that make the load of a run, and what this host's counters say of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from pytest_ipperf.agent.flows import runner
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.handlers.base import Here, Part
from pytest_ipperf.agent.sockets.ports import open_connections
from pytest_ipperf.agent.sockets.receive_timestamps import stamping

_POLL_S = 0.005


class Runs(Part):
    """Of applications by `load`; of flows in three steps, two of them at the far end."""

    def __init__(self, here: Here) -> None:
        super().__init__(here)
        here.stack.enter_context(contextlib.closing(stamping()))
        self._flows = here.stack.enter_context(contextlib.closing(runner.Flows()))

    def load(self, spec: dict[str, Any]) -> dict[str, Any]:
        """One run, with the packets counted around it."""
        watch = self._here.line.watch()
        return self._around(lambda: load(LoadSpec(**spec), watch))

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
        """The far end of a flow listens from now on; what its near end has to know."""
        return self._flows.listen(spec)

    def flow_run(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The near end's part of a run, with the packets counted around it."""
        watch = self._here.line.watch()

        def run() -> dict[str, Any]:
            watch.began()
            told = runner.run(spec, watch.alive)
            watch.ended()
            return {**told, "control": watch.control}

        return self._around(run)

    def flow_finish(self, near: dict[str, Any]) -> dict[str, Any]:
        """The far end's part of a run, whose near end has told so much."""
        return self._flows.finish(near)

    def _around(self, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a run tells, and the packets of this host in it."""
        self._here.counters.begin()
        return {**run(), **self._here.counters.run()}


part = Runs
