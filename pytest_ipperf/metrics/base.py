"""Interface of a metric file: the quantity, its meaning, and how it is computed from a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.run_data import RunData


@dataclass(frozen=True, slots=True, kw_only=True)
class LookFacts:
    """Facts about the runs of a look by which they are judged.

    `margin` is that of the question, `tail` the one beyond which a question about slow connections calls them slow.
    """

    reference: Arm
    deadline_s: float
    margin: Margin
    tail: Margin | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric and its computation.

    `value` returns a run's value in the metric's unit, None if the run has none; `lacking` says in words why.
    `at_look` returns the values by which the runs of a look are judged if these depend on all of them, in order of the
    runs; None if they are the runs' own values.
    """

    metric: Metric
    value: Callable[[RunData], float | None]
    lacking: str = "nothing completed"
    at_look: Callable[[Sequence[Run], LookFacts], Sequence[float]] | None = None
