"""Shut agents down: they remove what they have made and report what stays, before their channels are closed."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from pytest_ipperf.core.portable.errors import IpperfError, LabError, RestoreError
from pytest_ipperf.lab.agents.client import AgentClient

_LEAVE_S = 20.0  # without a keep-alive


def shut_down(agents: Collection[AgentClient]) -> list[str]:
    """End all agents in parallel; return a sentence for each thing that stays on a host, which is then marked.

    An agent that cannot be reached ends by itself and marks its host. No channel is closed before all agents have shut
    down, as one agent may hold the lease for two hosts of one machine.
    """
    most = max(1, len(agents))
    try:
        with ThreadPoolExecutor(most) as pool:  # waits for all at its end, even after a Ctrl-C
            leaving = [pool.submit(_leftovers, agent) for agent in agents]
            return [sentence for each in leaving for sentence in each.result()]
    finally:
        with ThreadPoolExecutor(most) as pool:
            list(pool.map(lambda agent: agent.close(), agents))


def _leftovers(agent: AgentClient) -> list[str]:
    try:
        return [f"host {agent.host.name}: {sentence}" for sentence in agent.within(_LEAVE_S).shut_down()]
    except LabError:
        return []


def leftovers_error(leftovers: Collection[str], testbeds: Collection[str], earlier: object = None) -> RestoreError:
    """Return the error that reports the `leftovers`, after an `earlier` error."""
    end = remedy(*testbeds)
    return restore_error(f"not everything could be removed: {'; '.join(leftovers)}; {end}", end, earlier)


def restore_error(sentence: str, end: str, earlier: object) -> RestoreError:
    """Return an error of that sentence, preceded by the message of the earlier error that it replaces."""
    if isinstance(earlier, Exception):
        first = str(earlier) if isinstance(earlier, IpperfError) else f"{type(earlier).__name__}: {earlier}"
        sentence = f"{first.removesuffix(f'; {end}')}; and {sentence}"
    return RestoreError(sentence)


def remedy(*testbeds: str) -> str:
    """Return what to do about marked hosts of these testbeds, as the end of a sentence."""
    options = " ".join(f"--testbed={name}" for name in testbeds)
    return f"put it in order, then clear the mark: pytest-ipperf doctor {options} --clear"
