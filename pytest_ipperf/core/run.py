"""A run: one execution of one cell, and what it brought home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ipperf.core.cell import Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of one arm of a workload.

    `samples` holds one value per completed connection in seconds; a failed connection is counted in `failed`
    under its kind (`refused`, `reset`, `deadline`, ...) and is never dropped. `value` is what the metric made of
    the run, in the metric's unit. `started_at` is the controller's monotonic clock in seconds.
    """

    arm: Arm
    epoch: int
    block: int
    slot: int
    warmup: bool
    started_at: float
    attempted: int
    failed: Mapping[str, int]
    samples: tuple[float, ...]
    value: float

    @property
    def completed(self) -> int:
        """Connections that reached the end of the measurement."""
        return len(self.samples)

    @property
    def failures(self) -> int:
        """Connections that did not."""
        return sum(self.failed.values())
