"""Run the near or the far end of a flow on this host, one run at a time."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.engines.base import FarEnd
from pytest_ipperf.agent.flows.spec import FlowReport, FlowSpec


class Flows:
    """The far end of a flow on this host, if one listens; `close` ends it."""

    def __init__(self) -> None:
        self._far: FarEnd | None = None

    def listen(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Start the far end, in the place of one that was abandoned; return what the near end has to know."""
        self.close()
        self._far = ENGINES[spec["engine"]].far(flow_spec(spec))
        return dict(self._far.listening)

    def finish(self, near: Mapping[str, Any]) -> dict[str, Any]:
        """End the run that the near end has reported; return the far end's report."""
        if self._far is None:
            raise ValueError("no far end listens")
        with contextlib.closing(self._far) as far:
            return dataclasses.asdict(far.finish(FlowReport(**near)))

    def close(self) -> None:
        """Ends a far end whose run has no end."""
        if self._far is not None:
            self._far.close()
            self._far = None


def run(spec: Mapping[str, Any], alive: Callable[[], None]) -> dict[str, Any]:
    """Run the near end, from beginning to end; return its report."""
    return dataclasses.asdict(ENGINES[spec["engine"]].near(flow_spec(spec), alive))


def flow_spec(spec: Mapping[str, Any]) -> FlowSpec:
    """As it was before it travelled, which makes lists of tuples."""
    low, high = spec["ports"]
    return FlowSpec(**{**spec, "ports": (low, high)})
