"""Samples of one arm, for tests that compute figures of their own."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.core.stats.percentile import percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSamples:
    """The runs of one arm that count, without warm-ups; `metric` names the metric of `values` and `mean`."""

    arm: Arm
    metric: str
    runs: Sequence[Run] = field(repr=False)

    @property
    def samples(self) -> tuple[tuple[float, ...], ...]:
        """Times of the completed connections of each run, in seconds; empty runs for flows, which keep none."""
        return tuple(tuple(run.times) for run in self.runs)

    @property
    def values(self) -> tuple[float, ...]:
        """Values of the runs in the metric's unit; a response time counts failed connections as the deadline."""
        return tuple(value for run in self.runs if (value := run.values[self.metric]) is not None)

    @property
    def mean(self) -> float:
        """Mean of `values`; raise InvalidError if no run has one."""
        if not self.values:
            raise InvalidError(f"no run of {self.arm} has a value of {self.metric}")
        return statistics.fmean(self.values)

    @property
    def attempted(self) -> int:
        """Number of connections or datagrams that were attempted."""
        return sum(run.attempted for run in self.runs)

    @property
    def completed(self) -> int:
        """Number of connections or datagrams that completed."""
        return sum(run.completed for run in self.runs)

    @property
    def failed_share(self) -> float:
        """Share (0..1) of the attempted connections or datagrams that failed; 0 if nothing was attempted."""
        return 1 - self.completed / self.attempted if self.attempted else 0.0

    def quantile(self, share: float) -> float:
        """Return the time in seconds that `share` (0 < share <= 1) of all connections do not exceed.

        Failed connections are infinitely slow (RFC 2330, section 11.3). UsageError for flows, which keep no times.
        """
        times = [time for run in self.runs for time in run.times]
        if not times and self.completed:
            raise UsageError(f"{self.arm} has no quantile: flows keep no times of connections")
        return percentile([*times, *[math.inf] * (self.attempted - self.completed)], share)

    @property
    def p50(self) -> float:
        """Median of the times in seconds."""
        return self.quantile(0.5)

    @property
    def p95(self) -> float:
        """95th percentile of the times in seconds."""
        return self.quantile(0.95)

    @property
    def p99(self) -> float:
        """99th percentile of the times in seconds."""
        return self.quantile(0.99)

    @property
    def p999(self) -> float:
        """99.9th percentile of the times in seconds."""
        return self.quantile(0.999)
