"""Orders about the servers of this host."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from pytest_ipperf.agent.facts.servers import unusable
from pytest_ipperf.agent.host_state.private_dir import lay_out
from pytest_ipperf.agent.rpc.handlers.base import Here, Part
from pytest_ipperf.agent.servers.accepted_mail import HandedOver, HandingOver, look, make_room
from pytest_ipperf.agent.servers.server_process import Daemon
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site


class Servers(Part):
    """Each is started at most once at a time."""

    def __init__(self, here: Here) -> None:
        super().__init__(here)
        self._daemons: dict[str, Daemon] = {}
        self._cpu_s = 0.0

    def unusable(self) -> dict[str, str]:
        """By server: why it cannot run here; empty where it can."""
        return unusable()

    def provision(self, name: str, protocol: str, payload_bytes: int, state: dict[str, Any]) -> str:
        """Lays out what a server is to hold, in a folder that lasts as long as this agent; gives the folder."""
        filled = application(protocol).filled(ServerState(**state), payload_bytes)
        folder = str(self._here.folder / f"{name}-{filled.digest}")
        lay_out(folder, SERVERS[name].provisions(folder, filled))
        return folder

    def serve(self, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Starts a server on `addresses`, on a free port of `ports`, that holds `state` in sizes of `payload_bytes`."""
        recipe = SERVERS[name]
        protocol = application(spec["protocol"])
        state = protocol.filled(ServerState(**spec["state"]), spec["payload_bytes"])
        low, high = spec["ports"]
        site = Site(
            folder=str(self._here.folder / name),
            addresses=tuple(spec["addresses"]),
            port=free_port(spec["addresses"], low, high, random.Random()),  # noqa: S311 - not a secret
            connections=spec["connections"],
            state=state,
            zone={host: tuple(found) for host, found in spec["zone"].items()},
            script=protocol.script(state),
            data=spec["data"],
            ports=(low, high),
        )
        self._daemons[name] = daemon = Daemon(recipe, site, code_fd=self._here.code_fd, env=self._here.packages.env)
        self._here.stack.callback(daemon.stop)
        daemon.start()
        return {"port": site.port, "version": recipe.version() + self._here.packages.remark(recipe.packages)}

    def quiet(self, limit_s: float) -> dict[str, Any]:
        """Waits until the servers have nothing left to do; says what still goes on, and which of them has died.

        Counted since the last such call: packets of protocol 41 and bare ones of IPv6, TCP's trouble, the servers'
        processor time.
        """
        busy = [said for daemon in self._daemons.values() if (said := daemon.wait_quiet(limit_s))]
        dead = [daemon.exit_sentence() for daemon in self._daemons.values() if not daemon.alive()]
        before, self._cpu_s = self._cpu_s, sum(daemon.cpu_seconds() for daemon in self._daemons.values())
        counting = self._here.counting
        since = {"tcp": counting.tcp(), "cpu_s": self._cpu_s - before}
        return {"busy": busy, "dead": dead, **counting.packets(), **since}

    def make_room(self, handing: dict[str, Any]) -> None:
        """Prepare a server for a run of `HandingOver`; see `accepting.make_room`."""
        spec = HandingOver(**handing)
        daemon = self._daemons[spec.server]
        make_room(daemon.recipe, daemon.site, spec)

    def accepted(self, handed: dict[str, Any]) -> dict[str, Any]:
        """Return the `Acceptance` of a run of `HandedOver`; see `accepting.look`."""
        spec = HandedOver(**handed)
        daemon = self._daemons[spec.server]
        return dataclasses.asdict(look(daemon.recipe, daemon.site, spec))

    def logs(self) -> dict[str, str]:
        """By server: the end of its log."""
        return {name: said for name, daemon in self._daemons.items() if (said := daemon.log())}

    def mute(self) -> list[str]:
        """Of each server that runs and does not answer, what is wrong with it."""
        return [said for daemon in self._daemons.values() if (said := daemon.mute())]


part = Servers
