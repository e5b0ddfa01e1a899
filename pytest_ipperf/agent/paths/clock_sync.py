"""Instants of another host on our clock, and the wall clock, which anybody may set, on the one that nobody can.

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

_LOOKS = 20
_STEP_NS = 1_000_000
_EXCHANGES = 100

DRIFT = 1e-4
"""By how much, as a share, two clocks may run apart: quartzes that are worse than most."""
WANDER = 1e-5
"""By how much, as a share, that may change within a run: ten times what it does where NTP keeps a clock in peace."""

Mark = tuple[int, float, float]
"""At which instant of ours, in ns, the other clock was by how many seconds ahead, and how far off that is at most."""


def clock_ahead_ns(clock: int) -> int:
    """By how much that clock is ahead of CLOCK_MONOTONIC, off by less than a microsecond on a healthy host."""
    found = []
    for _ in range(_LOOKS):
        before, there, after = time.monotonic_ns(), time.clock_gettime_ns(clock), time.monotonic_ns()
        found.append((after - before, there - (before + after) // 2))
    return min(found)[1]


def look() -> dict[str, Any]:
    """Whose CLOCK_MONOTONIC this is, how far the wall clock is ahead of it, and for how long this host has slept."""
    real_ns, slept_ns = clock_ahead_ns(time.CLOCK_REALTIME), clock_ahead_ns(time.CLOCK_BOOTTIME)
    return {"whose": clock_of_host(), "real_s": real_ns * 1e-9, "slept_s": slept_ns * 1e-9}


def check_unset(host: str, before_ns: int, after_ns: int) -> None:
    """LabError where somebody has set the clock of that address's host between two looks."""
    if abs(after_ns - before_ns) > _STEP_NS:
        by_s = (after_ns - before_ns) / 1e9
        raise LabError(
            f"the clock of host {host} was set by {by_s:.3f} s during the run, so its time stamps tell nothing; let it "
            "alone, or have it slewed, while measurements run"
        )


def compared(source: str, address: str, clock: object, port: int) -> list[Mark]:
    """The other host's CLOCK_MONOTONIC against ours, now; nothing to compare where both are one.

    `clock` is what `clock_of_host` told there, and `port` that of its OffsetServer.
    """
    if clock == clock_of_host():
        return []
    began_ns = time.monotonic_ns()
    offset_s, error_s = estimate(exchange(source, address, port, _EXCHANGES))
    ended_ns = time.monotonic_ns()
    return [(ended_ns, offset_s, error_s + DRIFT * (ended_ns - began_ns) * 1e-9)]


def ahead(marks: Sequence[Mark], at_ns: int) -> tuple[float, float]:
    """By how many seconds the other clock is ahead at an instant of ours, and how far off that is at most.

    Between two marks it is a line, as clocks drift; before the first and behind the last it stays. One that is much
    worse than the best, such as one that had to wait in a queue, is left out. Of marks that know nothing it is 0, and
    infinitely unsure.
    """
    good = _good(marks)
    if not good:
        return 0.0, math.inf
    for one, other in pairwise(good):
        if one[0] <= at_ns < other[0]:
            return _between(one, other, at_ns)
    at, ahead_s, error_s = good[0] if at_ns < good[0][0] else good[-1]
    return ahead_s, error_s + DRIFT * abs(at_ns - at) * 1e-9


def beyond_s(one: Mark, other: Mark) -> float:
    """How much further than drift and error allow a clock has moved between two marks; below 0 where it has not."""
    return abs(other[1] - one[1]) - one[2] - other[2] - DRIFT * (other[0] - one[0]) * 1e-9


def _good(marks: Sequence[Mark]) -> list[Mark]:
    best = min(error_s for _, _, error_s in marks)
    return sorted(mark for mark in marks if mark[2] <= 2 * best < math.inf)


def _between(one: Mark, other: Mark, at_ns: int) -> tuple[float, float]:
    since_s, length_s = (at_ns - one[0]) * 1e-9, (other[0] - one[0]) * 1e-9
    part = since_s / length_s
    # How far a clock whose drift wanders by no more than it may can get from the line between where it was twice.
    off_s = 2 * WANDER * since_s * (1 - part)
    return one[1] + part * (other[1] - one[1]), one[2] + part * (other[2] - one[2]) + off_s


def _worst_ns(one: Mark, other: Mark) -> int:
    """When between two marks the error is greatest: half-way, but for the difference of their own."""
    return int((one[0] + other[0]) / 2 + (other[2] - one[2]) / (4 * WANDER) * 1e9)


class Ours:
    """Instants of the other clock as ours, after one mark before a run and one behind it; without any, they are one.

    `error_s` is how far off they are at most, from the first mark to the last.
    """

    def __init__(self, marks: Sequence[Mark]) -> None:
        self.error_s, self._at_ns, self._ahead_ns, self._drift = 0.0, 0, 0, 0.0
        if marks:
            first_ns, last_ns = min(marks)[0], max(marks)[0]
            worst = [min(max(first_ns, _worst_ns(*pair)), last_ns) for pair in pairwise(_good(marks))]
            self.error_s = max(ahead(marks, at)[1] for at in (first_ns, *worst, last_ns))
            before_s, after_s = (ahead(marks, at)[0] for at in (first_ns, last_ns))
            self._at_ns, self._ahead_ns = first_ns, round(before_s * 1e9)
            gained = (after_s - before_s) * 1e9 / max(1, last_ns - first_ns)
            self._drift = gained / (1 + gained)

    def of(self, there_ns: int) -> int:
        """That instant, in ns of our clock."""
        here = there_ns - self._ahead_ns
        return here - round(self._drift * (here - self._at_ns)) if self._drift else here
