"""Map instants of another host to the local clock, and relate the wall clock to CLOCK_MONOTONIC, which nobody can set.

Whatever is said of two clocks holds as long as they run apart by no more than quartzes may, and steadily.

The kernel stamps what it receives by CLOCK_REALTIME. NTP speeds and slows that one and CLOCK_MONOTONIC alike
(clock_gettime(2)), so they differ by the same all the time, until somebody sets it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pytest_ipperf.agent.paths.clock_exchange import clock_of_host, estimate, exchange
from pytest_ipperf.core.portable.errors import LabError

_READINGS = 20
_STEP_NS = 1_000_000
_EXCHANGES = 100

DRIFT = 1e-4
"""By how much, as a share, two clocks may run apart: quartzes that are worse than most."""
WANDER = 1e-5
"""By how much, as a share, that may change within a run: ten times what it does where NTP keeps a clock in peace."""

ClockSample = tuple[int, float, float]
"""At which instant of ours, in ns, the other clock was by how many seconds ahead, and how far off that is at most."""


def clock_ahead_ns(clock: int) -> int:
    """By how much that clock is ahead of CLOCK_MONOTONIC, off by less than a microsecond on a healthy host."""
    found = []
    for _ in range(_READINGS):
        before, there, after = time.monotonic_ns(), time.clock_gettime_ns(clock), time.monotonic_ns()
        found.append((after - before, there - (before + after) // 2))
    return min(found)[1]


def sample_clocks() -> dict[str, Any]:
    """Sample this host's clocks: the identity of its CLOCK_MONOTONIC, the lead of the wall clock, the time asleep."""
    real_ns, slept_ns = clock_ahead_ns(time.CLOCK_REALTIME), clock_ahead_ns(time.CLOCK_BOOTTIME)
    return {"whose": clock_of_host(), "real_s": real_ns * 1e-9, "slept_s": slept_ns * 1e-9}


def check_not_set(host: str, before_ns: int, after_ns: int) -> None:
    """Raise LabError where the clock of that address's host was set between two readings."""
    if abs(after_ns - before_ns) > _STEP_NS:
        by_s = (after_ns - before_ns) / 1e9
        raise LabError(
            f"the clock of host {host} was set by {by_s:.3f} s during the run, so its time stamps tell nothing; let it "
            "alone, or have it slewed, while measurements run"
        )


def compare_clocks(source: str, address: str, clock: object, port: int) -> list[ClockSample]:
    """Sample the other host's CLOCK_MONOTONIC against the local one, now; no samples where both are one.

    `clock` is what `clock_of_host` returned there, and `port` that of its OffsetServer.
    """
    if clock == clock_of_host():
        return []
    began_ns = time.monotonic_ns()
    offset_s, error_s = estimate(exchange(source, address, port, _EXCHANGES))
    ended_ns = time.monotonic_ns()
    return [(ended_ns, offset_s, error_s + DRIFT * (ended_ns - began_ns) * 1e-9)]


def offset_at(samples: Sequence[ClockSample], at_ns: int) -> tuple[float, float]:
    """By how many seconds the other clock is ahead at an instant of ours, and how far off that is at most.

    Between two samples it is a line, as clocks drift; before the first and behind the last it stays. One that is much
    worse than the best, such as one that had to wait in a queue, is left out. Without any usable sample it is 0, and
    infinitely unsure.
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
    # How far a clock whose drift wanders by no more than it may can get from the line between where it was twice.
    off_s = 2 * WANDER * since_s * (1 - part)
    return one[1] + part * (other[1] - one[1]), one[2] + part * (other[2] - one[2]) + off_s


def _worst_ns(one: ClockSample, other: ClockSample) -> int:
    """When between two samples the error is greatest: half-way, but for the difference of their own."""
    return int((one[0] + other[0]) / 2 + (other[2] - one[2]) / (4 * WANDER) * 1e9)


class ClockMap:
    """Maps instants of the other clock to the local one, by samples before and after a run; without any, they are one.

    `error_s` is how far off they are at most, from the first mark to the last.
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
        """Return that instant in ns of the local clock."""
        here = there_ns - self._ahead_ns
        return here - round(self._drift * (here - self._at_ns)) if self._drift else here
