"""RPC methods about the host: identity, lease, processors, fingerprint."""

from __future__ import annotations

import os
import platform
import socket

from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.agent.kernel.fingerprint import fingerprint
from pytest_ipperf.agent.kernel.processes import process_of
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.rpc.messages import Fingerprint, Hello


class HostHandlers(Handlers):
    """What is asked before anything is built."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._lease: Lease | None = None

    def hello(self) -> Hello:
        """Who answers here; number and start together name its process for ever."""
        mine = process_of(os.getpid())
        return Hello(
            python=platform.python_version(),
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ticks=mine.started_ticks if mine else 0,
        )

    def arm_watchdog(self, timeout_s: float) -> None:
        """Note that the controller is on another machine: be silent during measurements, and arm the watchdog."""
        self._context.channel.arm_watchdog(timeout_s)

    def pin(self, cpus: list[int]) -> list[int]:
        """Binds the agent and all that it starts to these processors, as far as they are allowed; none: left free."""
        allowed = os.sched_getaffinity(0) & set(cpus)
        if allowed:
            os.sched_setaffinity(0, allowed)
        return sorted(os.sched_getaffinity(0))

    def lease(self, owner: str, wait_s: float) -> str:
        """Empty when this host is ours now, else who holds it.

        Nobody releases it: it goes with this process, so when all is undone and what stays is marked.
        """
        if self._lease is None:
            self._lease = Lease(owner)
        return self._lease.acquire(wait_s)

    def fingerprint(self, device: str) -> Fingerprint:
        """Return what the results of this host may depend on."""
        return Fingerprint(**fingerprint(device))


handlers = HostHandlers
