"""Arrivals: when the connections of an open burst begin, whatever becomes of those before them."""

from __future__ import annotations

import random
from itertools import accumulate

from pytest_ipperf.agent.load.spec import LoadOrder


def arrivals(count: int, rate_per_s: float, pattern: str) -> list[float]:
    """Instants of a Poisson process in seconds since the burst began; the same `pattern` makes the same ones."""
    rng = random.Random(pattern)  # noqa: S311 - not a secret
    return list(accumulate(rng.expovariate(rate_per_s) for _ in range(count)))


def starts(order: LoadOrder, number: int) -> list[float]:
    """The instants of burst `number` of an order; none where it is closed."""
    if not order.rate_per_s:
        return []
    return arrivals(order.connections, order.rate_per_s, f"{order.pattern}/{number}")


def longest_s(order: LoadOrder) -> float:
    """How long it takes in any of an order's bursts until all connections have come."""
    return max((instants[-1] for n in range(order.bursts) if (instants := starts(order, n))), default=0.0)
