"""Interface of a metric file: the quantity, its meaning, and how it is computed from a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric and its computation.

    `value` returns a run's value in the metric's unit, None if the run has none; `lacking` says in words why.
    """

    metric: Metric
    value: Callable[[RunData], float | None]
    lacking: str = "nothing completed"
