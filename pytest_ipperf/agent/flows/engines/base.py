"""Definition of an engine: the two ends of one run's traffic, the near end at the client, the far end at the server.

The far end listens first, then the near end runs, then the far end finishes with the near end's report.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from pytest_ipperf.agent.flows.spec import Delivered, FarListening, FlowReport, FlowSpec
from pytest_ipperf.core.portable.errors import LabError

NO_BACKGROUND: AbstractContextManager[None] = contextlib.nullcontext()
"""Background traffic of a run without any."""


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
    def near(
        self, spec: FlowSpec, alive: Callable[[], None], background: AbstractContextManager[None] = NO_BACKGROUND
    ) -> FlowReport:
        """Carry out one run, calling `alive` every now and then; raise LabError if refused, or if the far end dies.

        Warm-up and run take place within the context `background`, in which background traffic is up, if there is any;
        connections, and comparisons of clocks, are made outside. Losses are data; a far end that refuses or resets is
        trouble of the testbed.
        """

    def delivered(self, spec: FlowSpec, report: FlowReport, direction: str, during_s: tuple[float, float]) -> Delivered:
        """Return what arrived at the end of this report, in its direction, from one instant of the run to another.

        Raise LabError for an engine that cannot make background traffic.
        """
        del spec, report, direction, during_s
        raise LabError(f"engine {type(self).__name__.strip('_').lower()} makes no background traffic")


class ServersEnd(FarEnd):
    """Far end of transfers, which a server program carries out."""

    listening = FarListening()

    def finish(self, near: FlowReport) -> FlowReport:
        """Return an empty report."""
        del near
        return FlowReport()

    def close(self) -> None:
        """Release nothing."""


class ServedEngine(Engine):
    """Engine whose far end is a server program of the epoch."""

    def far(self, spec: FlowSpec) -> FarEnd:
        """Return a far end that does nothing, as the server serves already."""
        del spec
        return ServersEnd()
