"""Choose the unit in which a metric's values are shown."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.portable.scaling import Unit, rate_unit, time_unit

_MILLISECONDS_FROM_S = 5e-4


def shown_time_unit(largest: float) -> Unit:
    """Return the unit for times up to `largest` seconds: milliseconds from 0.5 ms on.

    Lines below each other then have the same unit where their times lie on both sides of 1 ms.
    """
    return time_unit(max(largest, 1e-3) if largest >= _MILLISECONDS_FROM_S else largest)


def unit_of(metric: Metric, values: Iterable[float]) -> Unit:
    """Return the unit of all values of a table, so that its cells can be compared."""
    largest = max((abs(value) for value in values), default=0.0)
    if metric.unit == "bit/s":
        return rate_unit(largest)
    if metric.unit == "s":
        return time_unit(largest)
    if metric.unit == "1":
        return Unit(0.01, "%", digits=4) if metric.scale == "difference" else Unit(1.0, "", digits=4)
    return Unit(1.0, metric.unit, digits=4)
