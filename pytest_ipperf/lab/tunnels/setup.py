"""Set up the ends of tunnels on a testbed's hosts by their agents, and restore the hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.shutdown import remedy, restore_error
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.tunnels.backend_choice import candidates, lab_backend, too_slow
from pytest_ipperf.transports.base import HostRoutes, NetworkPath, TunnelEndpoint

EXISTING = "existing"
"""Backend name of tunnels that the hosts had before."""


@dataclass(frozen=True, slots=True)
class Tunnels:
    """Tunnelled arms of a testbed, by transport: the backend of each, or why it could not be set up."""

    backends: dict[str, str] = field(default_factory=dict)
    trouble: dict[str, LabError] = field(default_factory=dict)


@contextlib.contextmanager
def set_up_tunnels(
    testbed: Testbed, agents: Mapping[str, AgentClient], transports: Collection[str], wanted: str
) -> Iterator[Tunnels]:
    """Make the tunnel endpoints of these transports; `wanted` is `auto`, a backend, or empty for the testbed's own.

    Hosts are restored when the context ends; RestoreError if that fails. A transport that cannot be set up is reported
    without an error, as the other arms do not need it.
    """
    tunnels = Tunnels()
    earlier: BaseException | None = None
    try:
        for transport in transports:
            path = testbed.paths[transport]
            try:
                tunnels.backends[transport] = _set_up(testbed, transport, path, agents, wanted)
            except AgentError:
                raise
            except LabError as error:
                tunnels.trouble[transport] = error
        yield tunnels
    except BaseException as error:
        earlier = error
        raise
    finally:
        # A lab's namespaces are discarded, so its hosts need no restoring.
        if not testbed.is_lab and any(testbed.paths[each].ends for each in transports):
            restore_hosts(testbed, agents, earlier)


def _set_up(testbed: Testbed, transport: str, path: NetworkPath, agents: Mapping[str, AgentClient], wanted: str) -> str:
    if not path.ends:
        return EXISTING
    name, why = lab_backend(testbed, wanted) if testbed.is_lab else _hosts_backend(testbed, path, agents, wanted)
    if why:
        raise LabError(f"nothing can carry {transport} on testbed {testbed.name} ({why})")
    with ThreadPoolExecutor(len(agents)) as pool:
        making = [
            pool.submit(_set_up_host, agent, name, path.legs.get(role), path.ends.get(role))
            for role, agent in agents.items()
        ]
    for each in making:
        each.result()
    return name


def _set_up_host(agent: AgentClient, backend: str, leg: HostRoutes | None, end: TunnelEndpoint | None) -> None:
    """Set up the routes and the tunnel endpoint of one host."""
    if leg:
        agent.add_routes(leg)
    if end:
        agent.create_tunnel(backend, end)


def _hosts_backend(
    testbed: Testbed, path: NetworkPath, agents: Mapping[str, AgentClient], wanted: str
) -> tuple[str, str]:
    """Return the backend that works on all tunnel endpoints, and why there is none; one of the two is empty."""
    reasons = []
    for name in candidates(testbed, wanted):
        reasons_by_host = ((agents[role].host.name, agents[role].cannot_carry(name)) for role in path.ends)
        why = next((f"host {host}: {reason}" for host, reason in reasons_by_host if reason), "") or too_slow(
            testbed, name
        )
        if not why:
            return name, ""
        reasons.append(f"{name}: {why}")
    return "", "; ".join(reasons)


def restore_hosts(testbed: Testbed, agents: Mapping[str, AgentClient], earlier: object = None) -> None:
    """Restore every host, even if another one fails; RestoreError with all that could not be restored."""
    left = []
    for agent in agents.values():
        try:
            sentences = agent.restore()
        except AgentError:  # the agent died, so its rollback helper undoes the changes
            continue
        left += [f"host {agent.host.name}: {sentence}" for sentence in sentences]
    if left:
        end = remedy(testbed.name)
        raise restore_error(f"not everything is as it was: {'; '.join(left)}; {end}", end, earlier)
