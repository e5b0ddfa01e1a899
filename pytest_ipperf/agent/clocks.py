"""Instants of another host on our clock, and the wall clock, which anybody may set, on the one that nobody can.

The kernel stamps what it receives by CLOCK_REALTIME. NTP speeds and slows that one and CLOCK_MONOTONIC alike
(clock_gettime(2)), so they differ by the same all the time, until somebody sets it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pytest_ipperf.agent.offset import clock_of_host, estimate, exchange
from pytest_ipperf.core.errors import LabError

_LOOKS = 20
_STEP_NS = 1_000_000
_EXCHANGES = 100
_DRIFT = 1e-4  # of a quartz that is worse than most

Mark = tuple[int, float, float]
"""At which instant of ours, in ns, the other clock was by how many seconds ahead, and how far off that is at most."""


def realtime_ahead_ns() -> int:
    """By how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, off by less than a microsecond on a healthy host."""
    found = []
    for _ in range(_LOOKS):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        found.append((after - before, real - (before + after) // 2))
    return min(found)[1]


def look() -> dict[str, Any]:
    """Whose CLOCK_MONOTONIC this is, how far the wall clock is ahead of it, and for how long this host has slept."""
    slept_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return {"whose": clock_of_host(), "real_s": realtime_ahead_ns() * 1e-9, "slept_s": slept_ns * 1e-9}


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
    offset_s, error_s = estimate(exchange(source, address, port, _EXCHANGES))
    return [(time.monotonic_ns(), offset_s, error_s)]


class Ours:
    """Instants of the other clock as ours, after one mark before a run and one behind it; without any, they are one.

    Between two good marks the offset is drawn as a line, as clocks drift. One that is much worse than the other, such
    as one that had to wait in a queue, is left out, and how far clocks may drift apart is part of the error then.
    """

    def __init__(self, marks: Sequence[Mark]) -> None:
        best = min((error for _, _, error in marks), default=0.0)
        good = [mark for mark in marks if mark[2] <= 2 * best] if best < float("inf") else []
        self.error_s = max((error for _, _, error in good), default=best)
        if len(good) == 1 and len(marks) > 1:  # whose drift is not known then
            self.error_s += _DRIFT * (max(at for at, _, _ in marks) - min(at for at, _, _ in marks)) * 1e-9
        at, offset_s, _ = good[0] if good else (0, 0.0, 0.0)
        self._at_ns, self._ahead_ns, self._drift = at, round(offset_s * 1e9), 0.0
        if len(good) > 1 and good[-1][0] > at:
            self._drift = (good[-1][1] - offset_s) * 1e9 / (good[-1][0] - at)

    def of(self, there_ns: int) -> int:
        """That instant, in ns of our clock."""
        here = there_ns - self._ahead_ns
        return here - round(self._drift * (here - self._at_ns)) if self._drift else here
