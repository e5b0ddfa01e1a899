"""The data of a run, as metrics take it."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """One run's data. What did not complete is counted in `failed` by kind and has no sample.

    `samples` holds the rows one after another, in base units, each with a value for every one of `columns`. `facts` are
    what was counted beside them, under the names that the protocol's file explains. A failed sample counts with the
    deadline, where a metric has use for it.
    """

    attempted: int
    failed: Mapping[str, int]
    columns: tuple[str, ...]
    samples: array[float]
    deadline_s: float
    facts: Mapping[str, float] = field(default_factory=dict)

    def column(self, name: str) -> array[float]:
        """One column of all samples, in the order in which they came."""
        return self.samples[self.columns.index(name) :: len(self.columns)]

    def rows(self) -> Iterator[tuple[float, ...]]:
        """The rows one by one."""
        wide = len(self.columns)
        return (tuple(self.samples[at : at + wide]) for at in range(0, len(self.samples), wide))


def completed_s(data: RunData) -> float | None:
    """The mean time of the connections that completed, of a run that has such; None where none did."""
    if "total" not in data.columns or not data.samples:
        return None
    return statistics.fmean(data.column("total"))
