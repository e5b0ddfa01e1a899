"""RPC methods that start and inspect the servers of this host."""

from __future__ import annotations

import random
from typing import Any

from pytest_ipperf.agent.facts.servers import unusable
from pytest_ipperf.agent.host_state.private_dir import populate
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.rpc.messages import Served, ServeRequest
from pytest_ipperf.agent.servers.accepted_mail import (
    Acceptance,
    ExpectedMail,
    QueuedMail,
    check_accepted,
    reserve_space,
)
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site


class ServerHandlers(Handlers):
    """Each is started at most once at a time."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._instances: dict[str, ServerProcess] = {}
        self._cpu_s = 0.0

    def unusable(self) -> dict[str, str]:
        """By server: why it cannot run here; empty where it can."""
        return unusable()

    def provision(self, name: str, protocol: str, payload_bytes: int, state: ServerState) -> str:
        """Lays out what a server is to hold, in a folder that lasts as long as this agent; gives the folder."""
        filled = application(protocol).filled(state, payload_bytes)
        folder = str(self._context.folder / f"{name}-{filled.digest}")
        populate(folder, SERVERS[name].provisions(folder, filled))
        return folder

    def serve(self, name: str, request: ServeRequest) -> Served:
        """Start a server; return once it serves."""
        recipe = SERVERS[name]
        protocol = application(request.protocol)
        state = protocol.filled(request.state, request.payload_bytes)
        low, high = request.ports
        site = Site(
            folder=str(self._context.folder / name),
            addresses=tuple(request.addresses),
            port=free_port(request.addresses, low, high, random.Random()),  # noqa: S311 - not a secret
            connections=request.connections,
            state=state,
            zone={host: tuple(found) for host, found in request.zone.items()},
            canned_replies=protocol.canned_replies(state),
            data=request.data,
            ports=(low, high),
        )
        self._instances[name] = instance = ServerProcess(
            recipe, site, code_fd=self._context.code_fd, env=self._context.packages.env
        )
        self._context.stack.callback(instance.stop)
        instance.start()
        return Served(port=site.port, version=recipe.version() + self._context.packages.remark(recipe.packages))

    def quiet(self, limit_s: float) -> dict[str, Any]:
        """Waits until the servers have nothing left to do; says what still goes on, and which of them has died.

        Counted since the last such call: packets of protocol 41 and bare ones of IPv6, TCP's trouble, the servers'
        processor time.
        """
        busy = [said for instance in self._instances.values() if (said := instance.wait_quiet(limit_s))]
        dead = [instance.exit_sentence() for instance in self._instances.values() if not instance.alive()]
        before, self._cpu_s = self._cpu_s, sum(instance.cpu_seconds() for instance in self._instances.values())
        counters = self._context.counters
        since = {"tcp": counters.tcp(), "cpu_s": self._cpu_s - before}
        return {"busy": busy, "dead": dead, **counters.packets(), **since}

    def reserve_space(self, handing: ExpectedMail) -> None:
        """Prepare a server for the messages of a run; see `accepted_mail.reserve_space`."""
        instance = self._instances[handing.server]
        reserve_space(instance.recipe, instance.site, handing)

    def check_accepted(self, handed: QueuedMail) -> Acceptance:
        """Compare the messages of a run with what the server keeps; see `accepted_mail.check_accepted`."""
        instance = self._instances[handed.server]
        return check_accepted(instance.recipe, instance.site, handed)

    def logs(self) -> dict[str, str]:
        """By server: the end of its log."""
        return {name: said for name, instance in self._instances.items() if (said := instance.log())}

    def unresponsive(self) -> list[str]:
        """Of each server that runs and does not answer, what is wrong with it."""
        return [said for instance in self._instances.values() if (said := instance.unresponsive())]


handlers = ServerHandlers
