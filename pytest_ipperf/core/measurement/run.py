"""A run: one execution of one cell, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.client_load import ClientFacts
from pytest_ipperf.core.portable.errors import InvalidError


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of one arm of a workload.

    A failed connection or datagram is counted in `failed` under its kind (`refused`, `deadline`, `lost`, ...) and is
    never dropped. `values` holds the metrics' values of the run, by name and in their units; None if a metric has none.
    `started_at` is the controller's monotonic clock in seconds, `began_at` its time of day, in seconds since 1970; the
    run `took_s` seconds, with all that belongs to it. `client` holds the client's report of itself, if it
    made one, `facts` the counts of a flow's engine, and `notes` its sentences about what limits the figures.
    `completed_s` is the mean time of the completed connections, None if there are none; `times` are the times of all
    of them in seconds, empty for flows. `course` has rows of `COURSE_COLUMNS` for a run of transfers.
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
    times: Sequence[float] = field(default=(), repr=False)
    course: Sequence[tuple[float, ...]] = field(default=(), repr=False)
    began_at: float = 0.0
    took_s: float = 0.0

    @property
    def failures(self) -> int:
        """Number of connections or datagrams that failed."""
        return sum(self.failed.values())

    @property
    def completed(self) -> int:
        """Number of connections or datagrams that completed."""
        return self.attempted - self.failures

    @property
    def failed_share(self) -> float:
        """Share of connections or datagrams that failed; raise InvalidError for a run that began none."""
        return self.failures / self.checked_attempts

    @property
    def checked_attempts(self) -> int:
        """Number of connections or datagrams begun; raise InvalidError if there are none."""
        if self.attempted < 1:
            raise InvalidError(f"a run of {self.arm} began no connection in epoch {self.epoch}; nothing can be judged")
        return self.attempted


def leading(failed: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the `most` frequent kinds of failure, and the sum of all others as one kind.

    Messages of rare failures hardly ever repeat, so that a full list would grow without bound.
    """
    kinds = sorted(failed.items(), key=lambda kind: (-kind[1], kind[0]))
    rest = sum(count for _, count in kinds[most:])
    return dict(kinds[:most]) | ({"other kinds": rest} if rest else {})
