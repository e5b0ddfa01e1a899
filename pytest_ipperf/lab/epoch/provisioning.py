"""Provision servers: write their state once a session on each host, and keep it from epoch to epoch.

On each such host a separate agent holds the folder and removes it when the session ends, in whatever way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
"""A machine, and whether root owns the state there: two hosts may be one machine, one of them with sudo."""
_Held = tuple[_User, str, str, str]


class Provisioning:
    """Server states of a session; open from the first folder to `close`, use as a context manager."""

    def __init__(self) -> None:
        self._agents: dict[_User, AgentClient] = {}
        self._testbeds: dict[str, None] = {}
        self._folders: dict[_Held, str] = {}
        self._verified: set[_Held] = set()
        self._unusable: dict[tuple[_User, str, tuple[str, ...]], Mapping[str, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def folder(self, host: Host, server: str, workload: Workload, state: ServerState) -> str:
        """Return the folder on `host` with the state of `server`; empty for a server whose configuration contains it.

        Raises LabError if it cannot be provisioned.
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

    def unusable(self, agent: AgentClient, names: tuple[str, ...]) -> Mapping[str, str]:
        """Return why each of these servers cannot run on the agent's host, as it was when this was asked first."""
        key = _user(agent.host), agent.host.way, names
        if key not in self._unusable:
            self._unusable[key] = agent.unusable([*names])
        return self._unusable[key]

    def verified(self, host: Host, server: str, workload: Workload, state: ServerState) -> bool:
        """Return whether the state of this server has been verified."""
        return _key(host, server, workload, state) in self._verified

    def note_verified(self, host: Host, server: str, workload: Workload, state: ServerState) -> None:
        """Record that the state of this server was verified."""
        self._verified.add(_key(host, server, workload, state))

    def close(self) -> None:
        """Remove all folders; RestoreError with everything that stays on a host, which is then marked."""
        agents, self._agents = list(self._agents.values()), {}
        testbeds, self._testbeds = list(self._testbeds), {}
        self._folders.clear()
        self._verified.clear()
        self._unusable.clear()
        if leftovers := shut_down(agents):
            raise leftovers_error(leftovers, testbeds)

    def _link(self, host: Host) -> AgentClient:
        # A lab's nodes live for one epoch, but they share the files of this machine.
        at = host if ACCESS_METHODS[host.way].in_inventory else dataclasses.replace(host, way="local", settings={})
        user = _user(host)
        if user in self._agents and self._agents[user].lost:
            self._lose(user)
            raise AgentError(f"host {host.name}: the agent that keeps what its servers hold died")
        if user not in self._agents:
            self._agents[user] = AgentClient(at)
        return self._agents[user]

    def _lose(self, user: _User) -> None:
        """Forget the folders of a lost agent, so that the next workload is provisioned anew."""
        self._agents.pop(user).close()
        self._folders = {key: folder for key, folder in self._folders.items() if key[0] != user}
        self._verified = {key for key in self._verified if key[0] != user}


def provision(agent: AgentClient, server: str, workload: Workload, state: ServerState) -> str:
    """Make an agent write a server's state; return the folder."""
    return agent.within(_PROVISION_S).provision(server, workload.protocol, workload.payload_bytes, state)


def _user(host: Host) -> _User:
    return host.machine, host.sudo


def _key(host: Host, server: str, workload: Workload, state: ServerState) -> _Held:
    return _user(host), server, f"{workload.protocol} {workload.payload_bytes}", state.digest
