"""Wait until nothing of the run before is on its way, and reset the packet counters of all hosts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory.model import Testbed

_CLOSED_S = 2.0
# A full queue before 1 Mbit/s is empty by then; what follows on slower links is proven less strictly. Three frames may
# be on their way from host to host.
_DRAINED_S = 15.0
_FRAMES_BITS = 3 * 1538 * 8


def drained(testbed: Testbed, agents: Mapping[str, AgentClient]) -> bool:
    """Reset all packet counters once nothing of the run before is on its way; False where that does not end."""
    links = testbed.links
    pause_s = 2 * links.delay_s + (_FRAMES_BITS / links.rate_bit_s if links.rate_bit_s else 0.0)
    end = time.monotonic() + _DRAINED_S
    if testbed.exclusive and not _closed(agents[role] for role in testbed.clients):
        return False
    # Clients count a run themselves.
    _counted(agent for role, agent in agents.items() if role not in testbed.clients)
    while pause_s:
        time.sleep(pause_s)
        if not _counted(agents.values()):
            break
        if time.monotonic() > end:
            return False
    return True


def weaker_proof(testbed: Testbed, *, settled: bool) -> tuple[str, ...]:
    """Return the note of a run whose packets of other IP versions prove nothing, as those may be of the run before."""
    if settled or not testbed.exclusive:
        return ()
    return ("the run before had not ended on the network, so packets of the other IP version were not held against it",)


def _closed(clients: Iterable[AgentClient]) -> bool:
    """Return whether clients have the last packets of all their connections; servers were waited for before."""
    return all(client.connections_over(_CLOSED_S) for client in clients)


def _counted(agents: Iterable[AgentClient]) -> int:
    """Return how many packets in tunnels, or that should be in one, hosts have met since the last call."""
    counted = [agent.quiet(0.0) for agent in agents]
    return sum(sum(counts.values()) for each in counted for counts in (each["protocol41"], each["bare_ipv6"]) if counts)
