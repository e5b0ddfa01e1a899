"""Shut agents down: they remove what they have made and report what stays, before their channels are closed."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from pytest_ipperf.core.portable.errors import IpperfError, LabError, RestoreError
from pytest_ipperf.lab.agents.client import AgentClient

_LEAVE_S = 20.0  # without a keep-alive


def shut_down(agents: Collection[AgentClient]) -> list[str]:
    """Ends all agents, side by side; a sentence for everything that stays on a host, which is marked by then.

    One that is not heard any more ends by itself, and marks its host by itself. None is gone before all have left: of
    two hosts that are one machine one alone holds the lease.
    """
    most = max(1, len(agents))
    try:
        with ThreadPoolExecutor(most) as pool:  # whose end waits for all, also where a Ctrl-C comes
            leaving = [pool.submit(_said, agent) for agent in agents]
            return [said for each in leaving for said in each.result()]
    finally:
        with ThreadPoolExecutor(most) as pool:
            list(pool.map(lambda agent: agent.close(), agents))


def _said(agent: AgentClient) -> list[str]:
    try:
        return [f"host {agent.host.name}: {sentence}" for sentence in agent.within(_LEAVE_S).shut_down()]
    except LabError:
        return []


def leftovers_error(said: Collection[str], testbeds: Collection[str], earlier: object = None) -> RestoreError:
    """Return the error that reports them, after what was `earlier` raised."""
    end = remedy(*testbeds)
    return restore_error(f"not everything could be removed: {'; '.join(said)}; {end}", end, earlier)


def restore_error(said: str, end: str, earlier: object) -> RestoreError:
    """A sentence with that end, which takes the place of an earlier error, and so tells that first."""
    if isinstance(earlier, Exception):
        first = str(earlier) if isinstance(earlier, IpperfError) else f"{type(earlier).__name__}: {earlier}"
        said = f"{first.removesuffix(f'; {end}')}; and {said}"
    return RestoreError(said)


def remedy(*testbeds: str) -> str:
    """What to do about hosts of these that are marked, as the end of a sentence."""
    asked = " ".join(f"--testbed={name}" for name in testbeds)
    return f"put it in order, then clear the mark: pytest-ipperf doctor {asked} --clear"
