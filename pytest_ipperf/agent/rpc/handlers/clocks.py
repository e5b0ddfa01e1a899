"""RPC methods that read this host's clocks."""

from __future__ import annotations

import time

from pytest_ipperf.agent.paths.clock_sync import ClockState, sample_clocks
from pytest_ipperf.agent.rpc.handlers.base import Handlers


class ClockHandlers(Handlers):
    """Handlers for clocks: CLOCK_MONOTONIC is the clock of measurements; the others show changes to it."""

    def clock(self) -> ClockState:
        """Sample this host's clocks."""
        return sample_clocks()

    def stamp(self) -> tuple[int, int]:
        """Return when the request came, and when it was answered, in ns."""
        return time.monotonic_ns(), time.monotonic_ns()


handlers = ClockHandlers
