"""Clocks of hosts against the controller's, by exchanges over the control channel (RFC 5905, section 8).

All clocks are CLOCK_MONOTONIC, which nobody sets. Errors assume that no clock drifts faster than a quartz may; a larger
drift is detected, reported, and added to the error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

from pytest_ipperf.agent.paths.clock_exchange import Exchange, estimate
from pytest_ipperf.agent.paths.clock_sync import DRIFT, ClockSample, excess_drift_s, offset_at, sample_clocks
from pytest_ipperf.lab.agents.client import AgentClient

# The fastest exchange counts; more exchanges are seldom faster.
_EXCHANGES = 16
_FEWEST = 3
_MOST_S = 0.25
_FRESH_S = 1.0
_GRAIN_S = 2e-9  # rounding error of halving nanoseconds and converting them to seconds
_STEP_S = 0.001
_STEPS = {"real_s": "was set by {:.3f} s", "slept_s": "stood still for {:.3f} s, as in sleep,"}


def exchange_stamps(agent: AgentClient, most: int = _EXCHANGES) -> list[Exchange]:
    """Exchange time stamps with an agent up to `most` times; over a slow connection fewer."""
    exchanges: list[Exchange] = []
    end_ns = time.monotonic_ns() + int(_MOST_S * 1e9)
    while len(exchanges) < most and (len(exchanges) < _FEWEST or time.monotonic_ns() < end_ns):
        sent_ns = time.monotonic_ns()
        came_ns, answered_ns = agent.stamp()
        exchanges.append((sent_ns, came_ns, answered_ns, time.monotonic_ns()))
    return exchanges


def best_sample(exchanges: Sequence[Exchange]) -> ClockSample:
    """Return the sample of the fastest exchange: our instant in ns, the far clock's lead and its error in seconds.

    The error is half of the exchange's time without the answering, plus the possible drift meanwhile.
    """
    sent, came, answered, back = min(exchanges, key=lambda each: each[3] - each[0] - (each[2] - each[1]))
    ahead_s, error_s = estimate([(sent, came, answered, back)])
    return (sent + back) // 2, ahead_s, error_s + DRIFT * (back - sent) * 1e-9 + _GRAIN_S


class HostClock:
    """Samples of a host's clock against ours; the first is taken at construction."""

    def __init__(self, agent: AgentClient) -> None:
        self._host = agent.host.name
        self._link = agent
        self._first = (sample_clocks(), agent.clock())
        self.round_trip_s = 0.0
        self.samples: list[ClockSample] = []
        self.sample()

    @property
    def is_local(self) -> bool:
        """Return whether it is the same clock as ours."""
        here, there = self._first
        return here.whose == there.whose

    def sample(self) -> None:
        """Add a sample from several exchanges; `round_trip_s` is the slowest of these."""
        exchanges = exchange_stamps(self._link)
        self.round_trip_s = max(back - sent for sent, _, _, back in exchanges) * 1e-9
        self.samples.append((exchanges[-1][3], 0.0, 0.0) if self.is_local else best_sample(exchanges))

    def refresh(self) -> None:
        """Sample again if the last sample is old."""
        if time.monotonic_ns() - self.samples[-1][0] > _FRESH_S * 1e9:
            self.sample()

    def to_remote(self, here_ns: int) -> int:
        """Convert an instant of our clock to the host's."""
        return here_ns + round(offset_at(self.samples, here_ns)[0] * 1e9)

    def to_local(self, there_ns: int) -> tuple[int, float]:
        """Convert an instant of the host's clock to ours; return it and its maximum error in seconds."""
        if self.is_local:
            return there_ns, 0.0
        near_ns = there_ns - round(self.samples[-1][1] * 1e9)
        ahead_s, error_s = offset_at(self.samples, near_ns)
        return there_ns - round(ahead_s * 1e9), error_s + max(0.0, self._beyond_s)

    @property
    def _beyond_s(self) -> float:
        return max((excess_drift_s(*pair) for pair in pairwise(self.samples)), default=0.0)

    def troubles(self) -> Iterator[str]:
        """Describe what happened to the clocks since the first sample, in sentences."""
        now = (sample_clocks(), self._link.clock())
        for whose, before, after in zip(("this machine", f"host {self._host}"), self._first, now, strict=True):
            for name, what in _STEPS.items():
                moved_s = getattr(after, name) - getattr(before, name)
                if abs(moved_s) > _STEP_S:
                    yield f"the clock of {whose} {what.format(moved_s)} during a run"
        if self._beyond_s > _STEP_S:
            yield f"the clock of host {self._host} moved by {self._beyond_s:.3f} s against this machine's during a run"
