"""RPC methods that read this host's clocks."""

from __future__ import annotations

import time
from typing import Any

from pytest_ipperf.agent.paths.clock_sync import sample_clocks
from pytest_ipperf.agent.rpc.handlers.base import Handlers


class ClockHandlers(Handlers):
    """CLOCK_MONOTONIC is what is measured by; the others tell what has become of it."""

    def clock(self) -> dict[str, Any]:
        """Whose clock it is, how far the wall clock is ahead of it, and for how long the host has slept so far."""
        return sample_clocks()

    def stamp(self) -> tuple[int, int]:
        """When the question came, and when it was answered, in ns."""
        return time.monotonic_ns(), time.monotonic_ns()


handlers = ClockHandlers
