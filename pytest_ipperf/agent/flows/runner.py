"""Runner of the near or the far end of a flow on this host, one run at a time, with its background traffic."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from pytest_ipperf.agent.flows.background import FarBackground, NearBackground
from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.engines.base import FarEnd
from pytest_ipperf.agent.flows.spec import Background, FarListening, FlowReport, FlowSpec, NearReports


class Flows:
    """Far end of a flow on this host, and of its background traffic, if they listen; `close` ends both."""

    def __init__(self) -> None:
        self._far: FarEnd | None = None
        self._load: FarBackground | None = None

    def listen(self, spec: FlowSpec, load: Background | None) -> tuple[FarListening, FarListening | None]:
        """Start the far ends, in place of abandoned ones; return their properties for the near ends."""
        self.close()
        if load:
            self._load = FarBackground(load)
        self._far = ENGINES[spec.engine].far(spec)
        return self._far.listening, self._load.listening if self._load else None

    def finish(self, near: FlowReport, load: FlowReport | None) -> tuple[FlowReport, FlowReport | None]:
        """End the run that the near ends have reported; return the far ends' reports."""
        if self._far is None:
            raise ValueError("no far end listens")
        with contextlib.closing(self):
            report = self._far.finish(near)
            return report, self._load.finish(load) if self._load and load else None

    def close(self) -> None:
        """Close the far ends of an unfinished run."""
        if self._far is not None:
            self._far.close()
            self._far = None
        if self._load is not None:
            self._load.close()
            self._load = None


def run(spec: FlowSpec, alive: Callable[[], None], load: Background | None = None) -> NearReports:
    """Run the near end, from beginning to end; return its report, and that of its background traffic."""
    if load is None:
        return NearReports(flow=ENGINES[spec.engine].near(spec, alive))
    background = NearBackground(load, alive)
    report = ENGINES[spec.engine].near(spec, alive, background)
    return NearReports(flow=report, load=background.report)
