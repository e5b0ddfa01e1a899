"""A run: one execution of one cell, and what it brought home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.instrument import ClientFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of one arm of a workload.

    `samples` holds one value per completed connection in seconds; a failed connection is counted in `failed`
    under its kind (`refused`, `reset`, `deadline`, ...) and is never dropped. `value` is what the metric made of
    the run, in the metric's unit. `started_at` is the controller's monotonic clock in seconds. `client` is what the
    client told of itself, if it did.
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
    client: ClientFacts | None = None

    @property
    def completed(self) -> int:
        """Connections that reached the end of the measurement."""
        return len(self.samples)

    @property
    def failures(self) -> int:
        """Connections that did not."""
        return sum(self.failed.values())


def leading(failed: Mapping[str, int], most: int) -> dict[str, int]:
    """The most frequent kinds of failure; all others are one, as who hears noise never hears the same twice."""
    kinds = sorted(failed.items(), key=lambda kind: (-kind[1], kind[0]))
    rest = sum(count for _, count in kinds[most:])
    return dict(kinds[:most]) | ({"other kinds": rest} if rest else {})
