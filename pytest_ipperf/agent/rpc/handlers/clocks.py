"""RPC methods that read this host's clocks."""

from __future__ import annotations

import time

from pytest_ipperf.agent.paths.clock_sync import ClockState, sample_clocks
from pytest_ipperf.agent.rpc.handlers.base import Handlers


class ClockHandlers(Handlers):
    """CLOCK_MONOTONIC is what is measured by; the others tell what has become of it."""

    def clock(self) -> ClockState:
        """Sample this host's clocks."""
        return sample_clocks()

    def stamp(self) -> tuple[int, int]:
        """When the question came, and when it was answered, in ns."""
        return time.monotonic_ns(), time.monotonic_ns()


handlers = ClockHandlers
