"""Provision servers: write what they hold once a session on each host, kept from epoch to epoch.

On every host that needs it an agent of its own holds the folder, and takes it away when the session ends, however it
ends.
"""

from __future__ import annotations

import dataclasses
from typing import Self

from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.portable.errors import AgentError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.shutdown import leftovers_error, shut_down
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.servers import SERVERS

_PROVISION_S = 300.0  # gigabytes of files on a slow disk

_User = tuple[str, bool]
"""A machine, and whether its root keeps it: two hosts may be one machine, one of them by sudo."""
_Held = tuple[_User, str, str, str]


class Provisioning:
    """Open from the first folder to `close`; use as a context manager."""

    def __init__(self) -> None:
        self._agents: dict[_User, AgentClient] = {}
        self._testbeds: dict[str, None] = {}
        self._folders: dict[_Held, str] = {}
        self._verified: set[_Held] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def folder(self, host: Host, server: str, workload: Workload, state: ServerState) -> str:
        """The folder on `host` with what `server` is to hold; empty for a server that has it in its configuration.

        LabError where it cannot be laid out.
        """
        if not SERVERS[server].provisioned:
            return ""
        key, agent = _key(host, server, workload, state), self._link(host)
        self._testbeds[workload.testbed] = None
        if key not in self._folders:
            try:
                self._folders[key] = provision(agent, server, workload, state)
            except AgentError:
                if agent.lost:
                    self._lose(key[0])
                raise
        return self._folders[key]

    def verified(self, host: Host, server: str, workload: Workload, state: ServerState) -> bool:
        """Whether it is known that all is there that this server is to hold."""
        return _key(host, server, workload, state) in self._verified

    def note_verified(self, host: Host, server: str, workload: Workload, state: ServerState) -> None:
        """It is."""
        self._verified.add(_key(host, server, workload, state))

    def close(self) -> None:
        """Takes all folders away; RestoreError with everything that stays on a host, which is marked by then."""
        agents, self._agents = list(self._agents.values()), {}
        testbeds, self._testbeds = list(self._testbeds), {}
        self._folders.clear()
        self._verified.clear()
        if said := shut_down(agents):
            raise leftovers_error(said, testbeds)

    def _link(self, host: Host) -> AgentClient:
        # The nodes of the lab come and go with the epochs; this machine, whose files they see, stays.
        at = host if ACCESS_METHODS[host.way].in_inventory else dataclasses.replace(host, way="local", settings={})
        user = _user(host)
        if user in self._agents and self._agents[user].lost:
            self._lose(user)
            raise AgentError(f"host {host.name}: the agent that keeps what its servers hold died")
        if user not in self._agents:
            self._agents[user] = AgentClient(at)
        return self._agents[user]

    def _lose(self, user: _User) -> None:
        """Forgets what an agent kept that was lost, so that the next workload has it laid out anew."""
        self._agents.pop(user).close()
        self._folders = {key: folder for key, folder in self._folders.items() if key[0] != user}
        self._verified = {key for key in self._verified if key[0] != user}


def provision(agent: AgentClient, server: str, workload: Workload, state: ServerState) -> str:
    """Have an agent write what a server is to hold; return the folder."""
    return agent.within(_PROVISION_S).provision(server, workload.protocol, workload.payload_bytes, state)


def _user(host: Host) -> _User:
    return host.machine, host.sudo


def _key(host: Host, server: str, workload: Workload, state: ServerState) -> _Held:
    return _user(host), server, f"{workload.protocol} {workload.payload_bytes}", state.digest
