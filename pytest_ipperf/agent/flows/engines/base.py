"""Define an engine: the two ends of one run's traffic, the near end at the client and the far end at the server.

The far end listens first, then the near end runs, then the far end finishes with the near end's report.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pytest_ipperf.agent.flows.spec import FlowReport, FlowSpec


class FarEnd(ABC):
    """The server's end of one run, which listens from its construction on."""

    listening: Mapping[str, Any]
    """What the near end has to know, plain values; `port` at least."""

    @abstractmethod
    def finish(self, near: FlowReport) -> FlowReport:
        """End the run that the near end reports, and return this end's report. LabError where that cannot be."""

    @abstractmethod
    def close(self) -> None:
        """Leaves nothing behind, finished or not; may be called twice."""


class Engine(ABC):
    """One way to make traffic."""

    @abstractmethod
    def far(self, spec: FlowSpec) -> FarEnd:
        """The far end, listening. LabError where this host refuses what is asked for, in one sentence that names it."""

    @abstractmethod
    def near(self, spec: FlowSpec, alive: Callable[[], None]) -> FlowReport:
        """One run, from beginning to end; calls `alive` every now and then. LabError as `far`, or when that dies.

        What is lost is data; a far end that refuses or resets is trouble of the testbed.
        """
