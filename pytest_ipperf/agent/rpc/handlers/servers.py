"""RPC methods that start and inspect the servers of this host."""

from __future__ import annotations

import random

from pytest_ipperf.agent.facts.servers import unusable
from pytest_ipperf.agent.host_state.private_dir import populate
from pytest_ipperf.agent.rpc.handlers.base import Handlers
from pytest_ipperf.agent.rpc.messages import Served, ServeRequest
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site


class ServerHandlers(Handlers):
    """Handlers for servers, each of which runs at most once at a time."""

    def unusable(self, names: list[str] | None = None) -> dict[str, str]:
        """Return why each of these servers, or of all, cannot run here; empty if it can."""
        return unusable(SERVERS if names is None else names)

    def provision(self, name: str, protocol: str, payload_bytes: int, state: ServerState) -> str:
        """Write the state that a server is to hold to a folder that lasts as long as this agent; return the folder."""
        filled = application(protocol).filled(state, payload_bytes)
        folder = str(self._context.folder / f"{name}-{filled.digest}")
        populate(folder, SERVERS[name].provisions(folder, filled))
        return folder

    def serve(self, requests: dict[str, ServeRequest]) -> dict[str, Served]:
        """Start servers side by side; return once all of them serve."""
        started = {name: self._launch(name, request) for name, request in requests.items()}
        versions = {name: SERVERS[name].version() for name in requests}  # some have to run their program for that
        for instance in started.values():
            instance.wait_ready()
        remark = self._context.packages.remark
        return {
            name: Served(port=instance.site.port, version=versions[name] + remark(SERVERS[name].packages))
            for name, instance in started.items()
        }

    def _launch(self, name: str, request: ServeRequest) -> ServerProcess:
        protocol = application(request.protocol)
        state = protocol.filled(request.state, request.payload_bytes)
        low, high = request.ports
        promised = [each.site.port for each in self._context.servers.values()]
        site = Site(
            folder=str(self._context.folder / name),
            addresses=tuple(request.addresses),
            port=free_port(request.addresses, low, high, random.Random(), promised),  # noqa: S311 - not a secret
            connections=request.connections,
            state=state,
            zone={host: tuple(found) for host, found in request.zone.items()},
            canned_replies=protocol.canned_replies(state),
            data=request.data,
            ports=(low, high),
        )
        self._context.servers[name] = instance = ServerProcess(
            SERVERS[name],
            site,
            code_fd=self._context.code_fd,
            env=self._context.packages.env,
            processors=self._context.processors,
        )
        self._context.stack.callback(instance.stop)
        instance.launch()
        return instance

    def logs(self) -> dict[str, str]:
        """Return the end of each server's log, by its name."""
        return {name: said for name, instance in self._context.servers.items() if (said := instance.log())}


handlers = ServerHandlers
