"""RPC methods about the host: identity, lease, processors, fingerprint."""

from __future__ import annotations

import os
import platform
import socket

from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.agent.kernel.fingerprint import fingerprint
from pytest_ipperf.agent.kernel.processes import process_of
from pytest_ipperf.agent.paths.routes import route
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.rpc.messages import Fingerprint, Hello


class HostHandlers(Handlers):
    """Handlers for the host, called before anything is built."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._lease: Lease | None = None

    def hello(self) -> Hello:
        """Return the identity of this agent; number and start together identify its process uniquely."""
        mine = process_of(os.getpid())
        return Hello(
            python=platform.python_version(),
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ticks=mine.started_ticks if mine else 0,
        )

    def pin(self, cpus: list[int]) -> list[int]:
        """Bind the agent and its children to these processors, as far as allowed; return those in use."""
        return self._context.processors.bind(cpus)

    def lease(self, owner: str, wait_s: float) -> str:
        """Acquire the lease of this host; return the empty string if acquired, else its holder.

        It is never released but ends with this process, after everything is undone and all leftovers are marked.
        """
        if self._lease is None:
            self._lease = Lease(owner)
        return self._lease.acquire(wait_s)

    def fingerprint(self, towards: str) -> Fingerprint:
        """Return the properties that this host's results may depend on, with the device that leads `towards` there."""
        return Fingerprint(**fingerprint(route(towards).device if towards else ""))


handlers = HostHandlers
