"""Clock synchronisation: instants of another host on the local clock, and of the wall clock on CLOCK_MONOTONIC.

Statements on two clocks hold as long as they drift apart by no more than quartzes may, and steadily. The kernel stamps
received packets by CLOCK_REALTIME. NTP speeds and slows that clock and CLOCK_MONOTONIC alike (clock_gettime(2)), so
their difference is constant until somebody sets CLOCK_REALTIME.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_ipperf.agent.paths.clock_exchange import clock_of_host, estimate, exchange
from pytest_ipperf.core.portable.errors import LabError

_READINGS = 20
_STEP_NS = 1_000_000
_EXCHANGES = 100

DRIFT = 1e-4
"""Largest relative drift between two clocks; most quartzes are better."""
WANDER = 1e-5
"""Largest relative change of the drift within a run: ten times the change where NTP runs undisturbed."""

ClockSample = tuple[int, float, float]
"""Instant of the local clock in ns, by how many seconds the other clock was ahead, and the largest error of that."""


@dataclass(frozen=True, slots=True)
class ClockState:
    """Sample of a host's clocks: the identity of CLOCK_MONOTONIC, the lead of the wall clock, the time asleep."""

    whose: dict[str, str]
    real_s: float
    slept_s: float


def clock_ahead_ns(clock: int) -> int:
    """Return by how many ns that clock is ahead of CLOCK_MONOTONIC, to less than a microsecond on a healthy host."""
    found = []
    for _ in range(_READINGS):
        before, there, after = time.monotonic_ns(), time.clock_gettime_ns(clock), time.monotonic_ns()
        found.append((after - before, there - (before + after) // 2))
    return min(found)[1]


def sample_clocks() -> ClockState:
    """Sample this host's clocks."""
    real_ns, slept_ns = clock_ahead_ns(time.CLOCK_REALTIME), clock_ahead_ns(time.CLOCK_BOOTTIME)
    return ClockState(clock_of_host(), real_ns * 1e-9, slept_ns * 1e-9)


def check_not_set(host: str, before_ns: int, after_ns: int) -> None:
    """Raise LabError if the clock of that address's host was set between two readings."""
    if abs(after_ns - before_ns) > _STEP_NS:
        by_s = (after_ns - before_ns) / 1e9
        raise LabError(
            f"the clock of host {host} was set by {by_s:.3f} s during the run, so its timestamps are useless; do not "
            "set it, or only slew it, while measurements run"
        )


def compare_clocks(source: str, address: str, clock: object, port: int) -> list[ClockSample]:
    """Sample the other host's CLOCK_MONOTONIC against the local one; return no samples if both are the same clock.

    `clock` is what `clock_of_host` returned there, and `port` is the port of its OffsetServer.
    """
    if clock == clock_of_host():
        return []
    began_ns = time.monotonic_ns()
    offset_s, error_s = estimate(exchange(source, address, port, _EXCHANGES))
    ended_ns = time.monotonic_ns()
    return [(ended_ns, offset_s, error_s + DRIFT * (ended_ns - began_ns) * 1e-9)]


def offset_at(samples: Sequence[ClockSample], at_ns: int) -> tuple[float, float]:
    """Return by how many seconds the other clock is ahead at a local instant, and the largest error of that.

    Between two samples it is interpolated, as clocks drift; before the first and after the last it is constant. Samples
    much worse than the best, such as one that waited in a queue, are ignored. Without any usable sample it is 0, with
    an infinite error.
    """
    good = _good(samples)
    if not good:
        return 0.0, math.inf
    for one, other in pairwise(good):
        if one[0] <= at_ns < other[0]:
            return _between(one, other, at_ns)
    at, ahead_s, error_s = good[0] if at_ns < good[0][0] else good[-1]
    return ahead_s, error_s + DRIFT * abs(at_ns - at) * 1e-9


def excess_drift_s(one: ClockSample, other: ClockSample) -> float:
    """Return how much further a clock has moved between two samples than drift and error allow; else below 0."""
    return abs(other[1] - one[1]) - one[2] - other[2] - DRIFT * (other[0] - one[0]) * 1e-9


def _good(samples: Sequence[ClockSample]) -> list[ClockSample]:
    best = min(error_s for _, _, error_s in samples)
    return sorted(sample for sample in samples if sample[2] <= 2 * best < math.inf)


def _between(one: ClockSample, other: ClockSample, at_ns: int) -> tuple[float, float]:
    since_s, length_s = (at_ns - one[0]) * 1e-9, (other[0] - one[0]) * 1e-9
    part = since_s / length_s
    # Largest distance from the straight line between two samples of a clock whose drift changes by at most WANDER.
    off_s = 2 * WANDER * since_s * (1 - part)
    return one[1] + part * (other[1] - one[1]), one[2] + part * (other[2] - one[2]) + off_s


def _worst_ns(one: ClockSample, other: ClockSample) -> int:
    """Return when the error between two samples is greatest: half-way, but for the difference of their own errors."""
    return int((one[0] + other[0]) / 2 + (other[2] - one[2]) / (4 * WANDER) * 1e9)


class ClockMap:
    """Map from the other clock to the local one, by samples before and after a run; without any, both are one.

    `error_s` is its largest error, from the first sample to the last.
    """

    def __init__(self, samples: Sequence[ClockSample]) -> None:
        self.error_s, self._at_ns, self._ahead_ns, self._drift = 0.0, 0, 0, 0.0
        if samples:
            first_ns, last_ns = min(samples)[0], max(samples)[0]
            worst = [min(max(first_ns, _worst_ns(*pair)), last_ns) for pair in pairwise(_good(samples))]
            self.error_s = max(offset_at(samples, at)[1] for at in (first_ns, *worst, last_ns))
            before_s, after_s = (offset_at(samples, at)[0] for at in (first_ns, last_ns))
            self._at_ns, self._ahead_ns = first_ns, round(before_s * 1e9)
            gained = (after_s - before_s) * 1e9 / max(1, last_ns - first_ns)
            self._drift = gained / (1 + gained)

    def to_local_ns(self, there_ns: int) -> int:
        """Return an instant of the other clock in ns of the local clock."""
        here = there_ns - self._ahead_ns
        return here - round(self._drift * (here - self._at_ns)) if self._drift else here
