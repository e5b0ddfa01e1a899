"""A simulated clock whose drift changes as much as real ones do, with its true offset."""

from __future__ import annotations

import random

from pytest_ipperf.agent.paths.clock_sync import DRIFT, WANDER


class Truth:
    """A remote clock that is ahead by `offset_ns`; its drift, and how that changes each millisecond, are random."""

    def __init__(self, offset_ns, seed):
        self._offset_ns = offset_ns
        drawn = random.Random(seed)
        steady = drawn.uniform(-1, 1) * (DRIFT - WANDER / 2)
        self._steps = [0.0]
        for _ in range(5000):
            wandering = drawn.choice((-1, 1, drawn.uniform(-1, 1))) * WANDER / 2
            self._steps.append(self._steps[-1] + (steady + wandering) * 1e6)

    def ahead_ns(self, at_ns):
        number, rest = divmod(at_ns, 10**6)
        before, after = self._steps[number], self._steps[number + 1]
        return self._offset_ns + before + (after - before) * rest / 1e6

    def reading(self, at_ns):
        return at_ns + round(self.ahead_ns(at_ns))
