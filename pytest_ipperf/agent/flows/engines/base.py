"""Definition of an engine: the two ends of one run's traffic, the near end at the client, the far end at the server.

The far end listens first, then the near end runs, then the far end finishes with the near end's report.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec


class FarEnd(ABC):
    """Server's end of one run, which listens from its construction on."""

    listening: FarListening
    """Properties that the near end has to know."""

    @abstractmethod
    def finish(self, near: FlowReport) -> FlowReport:
        """End the run that the near end reports, and return this end's report; raise LabError if that fails."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources, finished or not; may be called twice."""


class Engine(ABC):
    """Way to generate traffic."""

    @abstractmethod
    def far(self, spec: FlowSpec) -> FarEnd:
        """Return the far end, listening; raise LabError with one sentence if this host refuses the spec."""

    @abstractmethod
    def near(self, spec: FlowSpec, alive: Callable[[], None]) -> FlowReport:
        """Carry out one run, calling `alive` every now and then; raise LabError if refused, or if the far end dies.

        Losses are data; a far end that refuses or resets is trouble of the testbed.
        """
