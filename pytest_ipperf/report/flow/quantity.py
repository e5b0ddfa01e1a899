"""Scale a metric's values to the unit in which people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_ipperf.core.design.metric import Metric

_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_FAR = 20


@dataclass(frozen=True, slots=True)
class Unit:
    """`size` of the base unit make one; `name` is empty for a plain number. `digits` are the significant ones."""

    size: float
    name: str
    digits: int = 3

    def text(self, value: float) -> str:
        """A value in base units as a table has it: 9.4153e7 -> `94.15` in Mbit/s."""
        return number(value / self.size, self.digits)


def unit_of(metric: Metric, values: Iterable[float]) -> Unit:
    """One for all of a table, so that its cells can be compared."""
    largest = max((abs(value) for value in values), default=0.0)
    if metric.unit == "bit/s":
        return Unit(*_fitting(_RATES, largest), digits=4)
    if metric.unit == "s":
        return Unit(*_fitting(_TIMES, largest))
    if metric.unit == "1":
        return Unit(0.01, "%", digits=4) if metric.scale == "difference" else Unit(1.0, "", digits=4)
    return Unit(1.0, metric.unit, digits=4)


def number(value: float, digits: int = 3) -> str:
    """So many significant digits, and never fewer than those before the point: 94.153 -> `94.2`, 1234.5 -> `1234`."""
    if not value or not math.isfinite(value):
        return "0" if not value else str(value)
    # Of the rounded value, which may have a digit more before the point.
    after = digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits}g}"))))
    return f"{value:.{max(0, after)}f}"


def time_pair(first_s: float, second_s: float) -> str:
    """Two times in one unit, or each in its own where they are far apart: `1.20 / 0.310 ms`, `40.0 ns / 1.56 ms`."""
    small, large = sorted((first_s, second_s))
    if small and large / small > _FAR:
        return f"{time_text(first_s)} / {time_text(second_s)}"
    unit = Unit(*_fitting(_TIMES, large))
    return f"{unit.text(first_s)} / {unit.text(second_s)} {unit.name}"


def time_text(seconds: float) -> str:
    """A time with its unit: `12.3 us`."""
    unit = Unit(*_fitting(_TIMES, seconds))
    return f"{unit.text(seconds)} {unit.name}"


def _fitting(units: Iterable[tuple[float, str]], largest: float) -> tuple[float, str]:
    """The largest unit of which there is one at least, else the smallest."""
    known = list(units)
    return next((each for each in known if largest >= each[0]), known[-1])
