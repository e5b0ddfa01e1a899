"""What a metric file offers: the quantity with its meaning, and how a run yields it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.metric import Metric


@dataclass(frozen=True, slots=True)
class Measure:
    """`value` takes the completed samples, the number of failures and the deadline, in the metric's unit."""

    metric: Metric
    value: Callable[[Sequence[float], int, float], float]
