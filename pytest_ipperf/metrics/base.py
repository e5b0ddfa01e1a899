"""Interface of a metric file: the quantity with its meaning, and how it is computed from a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData


@dataclass(frozen=True, slots=True)
class Measure:
    """`value` gives a run's value in the metric's unit, None where the run has none; `lacking` says why, in words."""

    metric: Metric
    value: Callable[[RunData], float | None]
    lacking: str = "nothing completed"
