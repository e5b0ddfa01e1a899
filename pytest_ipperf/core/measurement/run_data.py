"""The data of a run, as metrics take it."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """One run's data; failures are counted in `failed` by kind and have no sample.

    `samples` holds the rows one after another, in base units, each with a value for every one of `columns`. `facts`
    holds further counts, under names that the protocol's file explains. A metric that includes failures counts each as
    `deadline_s`.
    """

    attempted: int
    failed: Mapping[str, int]
    columns: tuple[str, ...]
    samples: array[float]
    deadline_s: float
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """Return the number of samples."""
        return len(self.samples) // len(self.columns)

    def column(self, name: str) -> array[float]:
        """Return one column of all samples, in order of arrival."""
        return self.samples[self.columns.index(name) :: len(self.columns)]

    def rows(self) -> Iterator[tuple[float, ...]]:
        """Iterate over the rows."""
        return zip(*[iter(self.samples)] * len(self.columns), strict=True)


COURSE_COLUMNS = ("at_s", "received_bytes", "interface_bytes")
"""Columns of the samples that are a course in time: counts since the run began."""


def course_of(data: RunData) -> Sequence[tuple[float, ...]]:
    """Return the rows of a run whose samples are a course in time; empty for others."""
    return tuple(data.rows()) if data.columns == COURSE_COLUMNS else ()


def completed_times(data: RunData) -> Sequence[float]:
    """Return the times of the completed connections in seconds; empty if the run has no such times."""
    return data.column("total") if "total" in data.columns else ()


def completed_s(data: RunData) -> float | None:
    """Return the mean time of the completed connections in seconds; None if the run has no such times."""
    times = completed_times(data)
    return statistics.fmean(times) if times else None
