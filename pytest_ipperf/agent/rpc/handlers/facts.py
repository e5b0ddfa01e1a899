"""RPC methods that find out whether a host is fit for measurements, and repair it as far as possible."""

from __future__ import annotations

import contextlib

from pytest_ipperf.agent.facts import FACTS
from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.host_state.repair import repair
from pytest_ipperf.agent.paths.reachability import Responder, unreachable
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.rpc.messages import CollectedFacts
from pytest_ipperf.core.portable.errors import IpperfError


class FactHandlers(Handlers):
    """Handlers for facts and repair, called while nothing is measured."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._responders = context.stack.enter_context(contextlib.ExitStack())

    def collect_facts(self, names: list[str], request: FactsRequest) -> CollectedFacts:
        """Collect the facts of these names, and why some cannot be collected."""
        collected = CollectedFacts()
        for name in names:
            try:
                collected.found[name] = FACTS[name].collect(request)
            except (IpperfError, OSError, ValueError, KeyError) as error:
                collected.troubles[name] = f"{type(error).__name__}: {error}"
        return collected

    def repair(self, everything: bool) -> list[str]:  # noqa: FBT001 - RPC methods have positional arguments only
        """Repair leftovers of earlier measurements; return sentences on what was done."""
        return repair(self._context.removed_folders, everything=everything)

    def reachability_listen(self, address: str, ports: tuple[int, int]) -> int:
        """Answer reachability probes from now on, on a free port; return the port."""
        responder = Responder(address, ports)
        self._responders.callback(responder.close)
        return responder.port

    def reachability_probe(self, source: str, address: str, port: int) -> dict[str, str]:
        """Return by `tcp` and `udp` why nobody answers there; empty if somebody does."""
        return unreachable(source, address, port)

    def reachability_close(self) -> None:
        """Close all responders."""
        self._responders.close()


handlers = FactHandlers
