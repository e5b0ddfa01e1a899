"""Remember unreachable hosts: a host on which no agent could be started recently is first probed briefly.

Otherwise many workloads on the same host would each wait for the full time-out; a host that is up again is used at
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_ipperf.core.portable.errors import AgentError
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.access.base import RemoteAccessMethod
from pytest_ipperf.lab.inventory.model import Host

if TYPE_CHECKING:  # execnet comes with it
    from pytest_ipperf.lab.agents.client import AgentClient

_MOMENT_S = 60.0


class UnreachableCache:
    """Times at which no agent could be started, by machine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[str, float] = {}

    def started(self, host: Host, entry: Sequence[str], start: Callable[[], AgentClient]) -> AgentClient:
        """Return the agent that `start` starts; after a recent failure, only if the host answers a brief probe.

        Raises AgentError with the probe's message.
        """
        way = ACCESS_METHODS[host.way]
        if not isinstance(way, RemoteAccessMethod):  # a start here costs nothing
            return start()
        try:
            self._knock(way, host, entry)
            agent = start()
        except AgentError:
            self._failed[host.machine] = self._clock()
            raise
        self._failed.pop(host.machine, None)
        return agent

    def _knock(self, way: RemoteAccessMethod, host: Host, entry: Sequence[str]) -> None:
        failed_at = self._failed.get(host.machine)
        if failed_at is None or self._clock() - failed_at >= _MOMENT_S:
            return
        if why := way.knock(host.settings, entry):
            raise AgentError(f"host {host.name}: no agent could be started by access method {host.way}: {why}")


UNREACHABLE = UnreachableCache()
