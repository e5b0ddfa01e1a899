"""The orders of a flow: at one host its near end, at the other its far one, one run at a time."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.engines.base import Far, FlowOrder, Told


class Flows:
    """What an agent has of flows; `close` leaves nothing of them."""

    def __init__(self) -> None:
        self._far: Far | None = None

    def listen(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The far end listens from now on, in the place of one that was left; tells what the near end has to know."""
        self.close()
        self._far = ENGINES[order["engine"]].far(flow_order(order))
        return dict(self._far.listening)

    def finish(self, near: Mapping[str, Any]) -> dict[str, Any]:
        """Ends the run of which the near end has told so much; tells the far end's part."""
        if self._far is None:
            raise ValueError("no far end listens")
        with contextlib.closing(self._far) as far:
            return dataclasses.asdict(far.finish(Told(**near)))

    def close(self) -> None:
        """Ends a far end whose run has no end."""
        if self._far is not None:
            self._far.close()
            self._far = None


def run(order: Mapping[str, Any], alive: Callable[[], None]) -> dict[str, Any]:
    """The near end's part of a run, from beginning to end."""
    return dataclasses.asdict(ENGINES[order["engine"]].near(flow_order(order), alive))


def flow_order(order: Mapping[str, Any]) -> FlowOrder:
    """As it was before it travelled, which makes lists of tuples."""
    low, high = order["ports"]
    return FlowOrder(**{**order, "ports": (low, high)})
