"""A run: one execution of one cell, and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.client_load import ClientFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of one arm of a workload.

    A connection, or a datagram, that failed is counted in `failed` under its kind (`refused`, `deadline`, `lost`, ...)
    and is never dropped. `values` is what metrics made of the run, by name and in their units; None where it has none.
    `started_at` is the controller's monotonic clock in seconds. `client` is what the client reported of itself, if it
    did, `facts` what the engine of a flow counted, and `notes` its sentences about what limits the figures.
    `completed_s` is the mean of the completed connections alone, None where there is none.
    """

    arm: Arm
    epoch: int
    block: int
    slot: int
    warmup: bool
    started_at: float
    attempted: int
    failed: Mapping[str, int]
    values: Mapping[str, float | None]
    client: ClientFacts | None = None
    completed_s: float | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> int:
        """What did not reach the end of the measurement."""
        return sum(self.failed.values())

    @property
    def completed(self) -> int:
        """What did."""
        return self.attempted - self.failures


def leading(failed: Mapping[str, int], most: int) -> dict[str, int]:
    """The most frequent kinds of failure; all others are one kind, as noise hardly ever repeats itself."""
    kinds = sorted(failed.items(), key=lambda kind: (-kind[1], kind[0]))
    rest = sum(count for _, count in kinds[most:])
    return dict(kinds[:most]) | ({"other kinds": rest} if rest else {})
