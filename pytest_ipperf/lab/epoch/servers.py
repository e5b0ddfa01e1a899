"""Start the servers of an epoch on their host, when they are needed, with their state."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pytest_ipperf.agent.flows.spec import FlowServer
from pytest_ipperf.agent.rpc.messages import Served, ServeRequest
from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.workload_kind import FLOWS
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.deploy.install import install_packages
from pytest_ipperf.lab.epoch.account_check import AT_ONCE
from pytest_ipperf.lab.epoch.provisioning import Provisioning, provision
from pytest_ipperf.lab.epoch.server_choice import choose_resolver, choose_server, naming_protocol
from pytest_ipperf.lab.runs.flows import served_workload
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.protocols import PROTOCOLS, application
from pytest_ipperf.servers import SERVERS

_NOTHING = ServerState()
_LOOK_UP_BYTES = 128
_AGENT = "agent"


class EpochServers:
    """Servers that listen on `addresses` and hold `state`.

    Without a `provisioning` that keeps server states, the state is provided for this epoch only.
    """

    def __init__(
        self,
        server: AgentClient,
        addresses: Sequence[str],
        state: ServerState = _NOTHING,
        provisioning: Provisioning | None = None,
    ) -> None:
        self.state = state
        self.provisioning = provisioning
        self._server = server
        self._addresses = list(addresses)
        self._null: ServerEndpoint | None = None

    def serve(self, workload: Workload, wanted: str) -> ServerEndpoint:
        """Start the server of the workload's protocol, as `choose_server` chooses it, and the name server."""
        protocols = {served_workload(workload).protocol, naming_protocol()}
        unusable = self._unusable(tuple(name for name in SERVERS if SERVERS[name].protocol in protocols))
        serve = self._serve_agent if PROTOCOLS[workload.protocol].kind == FLOWS else self._serve_program
        return serve(served_workload(workload), wanted, unusable)

    def _unusable(self, names: tuple[str, ...]) -> Mapping[str, str]:
        """Return why each of these servers cannot run there; one that can no longer run fails when it is started."""
        if self.provisioning is None:
            return self._server.unusable([*names])
        return self.provisioning.unusable(self._server, names)

    def _serve_agent(self, workload: Workload, wanted: str, unusable: Mapping[str, str]) -> ServerEndpoint:
        """Start only the name server, by which paths are proven: a flow ends at the agent."""
        naming = dataclasses.replace(workload, protocol=naming_protocol(), payload_bytes=_LOOK_UP_BYTES)
        resolver = self._service(choose_resolver(wanted, unusable, self._server.host), naming)
        return dataclasses.replace(resolver, name=_AGENT, version="", embedded=False, port=0)

    def _serve_program(self, workload: Workload, wanted: str, unusable: Mapping[str, str]) -> ServerEndpoint:
        name = self._chosen(workload.protocol, wanted, unusable)
        # A name server resolves its own names.
        if SERVERS[name].protocol == naming_protocol():
            return self._service(name, workload)
        resolver = choose_resolver(wanted, unusable, self._server.host)
        served = self._served([resolver, name], workload)
        names = _endpoint(resolver, served[resolver])
        return _endpoint(name, served[name], names.port, str(names))

    def accounts(self, service: ServerEndpoint, count: int) -> FlowServer:
        """Return the server as a flow's near end uses it, with so many of its accounts if it has any."""
        users = [self.state.user(index) for index in range(count)] if self.state.users else []
        return FlowServer(
            port=service.port,
            users=users,
            password=self.state.password,
            cached_ttl_s=SERVERS[service.name].cached_ttl_s,
        )

    def null(self, beside: ServerEndpoint, workload: Workload) -> ServerEndpoint:
        """Start the null server, whose name the running name server resolves, too."""
        if self._null is None:
            null = application(workload.protocol).null
            known = beside.resolver_port, beside.resolver
            self._null = beside if null == beside.name else self._service(null, workload, *known)
        return self._null

    def _chosen(self, protocol: str, wanted: str, unusable: Mapping[str, str]) -> str:
        """Return the server to start, after installing the packages that it needs."""
        host = self._server.host
        sent = dict.fromkeys((each for each in SERVERS if SERVERS[each].packages), "")
        name = choose_server(protocol, wanted, {**unusable, **sent}, host)
        if unusable[name]:
            try:
                install_packages(self._server, SERVERS[name].packages)
            except AgentError:
                raise
            except LabError as error:  # reported with the reasons against the servers preferred to it
                reason = str(error).removeprefix(f"host {host.name}: ")
                return choose_server(protocol, wanted, {**unusable, name: reason}, host)
        return name

    def _service(self, name: str, workload: Workload, resolver_port: int = 0, resolver: str = "") -> ServerEndpoint:
        """Start a server; without the port of a name server it is one itself."""
        return _endpoint(name, self._served([name], workload)[name], resolver_port, resolver)

    def _served(self, names: Sequence[str], workload: Workload) -> dict[str, Served]:
        """Start servers side by side."""
        return self._server.serve({name: self._request(name, workload) for name in names})

    def _request(self, name: str, workload: Workload) -> ServeRequest:
        return ServeRequest(
            addresses=self._addresses,
            ports=self._server.host.ports,
            # The account check needs connections, too.
            connections=max(workload.connections, min(self.state.users, AT_ONCE)),
            protocol=workload.protocol,
            payload_bytes=workload.payload_bytes,
            zone={PROTOCOLS[workload.protocol].host: self._addresses},
            state=self.state,
            data=self._provisioned(name, workload),
        )

    def _provisioned(self, name: str, workload: Workload) -> str:
        if self.provisioning is not None:
            return self.provisioning.folder(self._server.host, name, workload, self.state)
        if not SERVERS[name].provisioned:
            return ""
        return provision(self._server, name, workload, self.state)


def _endpoint(name: str, served: Served, resolver_port: int = 0, resolver: str = "") -> ServerEndpoint:
    """Return the endpoint of a server; without the port of a name server it is one itself."""
    port = served.port
    service = ServerEndpoint(name, served.version, SERVERS[name].embedded, port, resolver_port or port, resolver)
    return service if resolver_port else dataclasses.replace(service, resolver=str(service))
