"""Runner of the near or the far end of a flow on this host, one run at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.engines.base import FarEnd
from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec


class Flows:
    """Far end of a flow on this host, if one listens; `close` ends it."""

    def __init__(self) -> None:
        self._far: FarEnd | None = None

    def listen(self, spec: FlowSpec) -> FarListening:
        """Start the far end, in place of an abandoned one; return its properties for the near end."""
        self.close()
        self._far = ENGINES[spec.engine].far(spec)
        return self._far.listening

    def finish(self, near: FlowReport) -> FlowReport:
        """End the run that the near end has reported; return the far end's report."""
        if self._far is None:
            raise ValueError("no far end listens")
        with contextlib.closing(self._far) as far:
            return far.finish(near)

    def close(self) -> None:
        """Close the far end of an unfinished run."""
        if self._far is not None:
            self._far.close()
            self._far = None


def run(spec: FlowSpec, alive: Callable[[], None]) -> FlowReport:
    """Run the near end, from beginning to end; return its report."""
    return ENGINES[spec.engine].near(spec, alive)
