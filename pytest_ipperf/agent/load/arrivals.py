"""Arrivals: when the connections of an open-loop burst begin, independent of earlier ones."""

from __future__ import annotations

import random
from itertools import accumulate

from pytest_ipperf.agent.load.spec import LoadSpec


def arrivals(count: int, rate_per_s: float, pattern: str) -> list[float]:
    """Return instants of a Poisson process in seconds since the burst began; the same `pattern` gives the same ones."""
    rng = random.Random(pattern)  # noqa: S311 - not a secret
    return list(accumulate(rng.expovariate(rate_per_s) for _ in range(count)))


def starts(spec: LoadSpec, number: int) -> list[float]:
    """Return the instants of burst `number` of a run; none if the load is closed-loop."""
    if not spec.rate_per_s:
        return []
    return arrivals(spec.connections, spec.rate_per_s, f"{spec.pattern}/{number}")


def longest_s(spec: LoadSpec) -> float:
    """Return the last instant of any of a run's bursts, in seconds since the burst began."""
    return max((instants[-1] for n in range(spec.bursts) if (instants := starts(spec, n))), default=0.0)
