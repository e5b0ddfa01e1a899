"""RPC methods that start and inspect the servers of this host."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from pytest_ipperf.agent.facts.servers import unusable
from pytest_ipperf.agent.host_state.private_dir import populate
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.servers.accepted_mail import ExpectedMail, QueuedMail, check_accepted, reserve_space
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

    def provision(self, name: str, protocol: str, payload_bytes: int, state: dict[str, Any]) -> str:
        """Lays out what a server is to hold, in a folder that lasts as long as this agent; gives the folder."""
        filled = application(protocol).filled(ServerState(**state), payload_bytes)
        folder = str(self._context.folder / f"{name}-{filled.digest}")
        populate(folder, SERVERS[name].provisions(folder, filled))
        return folder

    def serve(self, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Starts a server on `addresses`, on a free port of `ports`, that holds `state` in sizes of `payload_bytes`."""
        recipe = SERVERS[name]
        protocol = application(spec["protocol"])
        state = protocol.filled(ServerState(**spec["state"]), spec["payload_bytes"])
        low, high = spec["ports"]
        site = Site(
            folder=str(self._context.folder / name),
            addresses=tuple(spec["addresses"]),
            port=free_port(spec["addresses"], low, high, random.Random()),  # noqa: S311 - not a secret
            connections=spec["connections"],
            state=state,
            zone={host: tuple(found) for host, found in spec["zone"].items()},
            canned_replies=protocol.canned_replies(state),
            data=spec["data"],
            ports=(low, high),
        )
        self._instances[name] = instance = ServerProcess(
            recipe, site, code_fd=self._context.code_fd, env=self._context.packages.env
        )
        self._context.stack.callback(instance.stop)
        instance.start()
        return {"port": site.port, "version": recipe.version() + self._context.packages.remark(recipe.packages)}

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

    def reserve_space(self, handing: dict[str, Any]) -> None:
        """Prepare a server for a run of `ExpectedMail`; see `accepted_mail.reserve_space`."""
        spec = ExpectedMail(**handing)
        instance = self._instances[spec.server]
        reserve_space(instance.recipe, instance.site, spec)

    def check_accepted(self, handed: dict[str, Any]) -> dict[str, Any]:
        """Return the `Acceptance` of a run of `QueuedMail`; see `accepted_mail.check_accepted`."""
        spec = QueuedMail(**handed)
        instance = self._instances[spec.server]
        return dataclasses.asdict(check_accepted(instance.recipe, instance.site, spec))

    def logs(self) -> dict[str, str]:
        """By server: the end of its log."""
        return {name: said for name, instance in self._instances.items() if (said := instance.log())}

    def unresponsive(self) -> list[str]:
        """Of each server that runs and does not answer, what is wrong with it."""
        return [said for instance in self._instances.values() if (said := instance.unresponsive())]


handlers = ServerHandlers
