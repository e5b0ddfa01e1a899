"""Scale values to the unit in which people read them, with the significant digits of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_FAR = 20


@dataclass(frozen=True)
class Unit:
    """Unit of values: `size` in base units, `name`, empty for a plain number, and significant `digits`."""

    size: float
    name: str
    digits: int = 3

    def text(self, value: float) -> str:
        """Return a value in base units as a table shows it: 9.4153e7 -> `94.15` in Mbit/s."""
        return number(value / self.size, self.digits)


def rate_unit(largest: float) -> Unit:
    """Return the unit for rates up to `largest` bit/s."""
    return Unit(*_fitting(_RATES, largest), digits=4)


def time_unit(largest: float) -> Unit:
    """Return the unit for times up to `largest` seconds."""
    return Unit(*_fitting(_TIMES, largest))


def number(value: float, digits: int = 3) -> str:
    """Return a number with `digits` significant ones, but all before the point: 94.153 -> `94.2`, 1234.5 -> `1234`."""
    if not value or not math.isfinite(value):
        return "0" if not value else str(value)
    # The rounded value may have one digit more before the point.
    after = digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits}g}"))))
    return f"{value:.{max(0, after)}f}"


def four_digits(value: float) -> str:
    """Return a number as rates are written in tables: 94.153 -> `94.15`."""
    return number(value, digits=4)


def time_pair(first_s: float, second_s: float) -> str:
    """Return two times in one unit, or in units of their own if far apart: `1.20 / 0.310 ms`, `40.0 ns / 1.56 ms`."""
    small, large = sorted((first_s, second_s))
    if small and large / small > _FAR:
        return f"{time_text(first_s)} / {time_text(second_s)}"
    unit = time_unit(large)
    return f"{unit.text(first_s)} / {unit.text(second_s)} {unit.name}"


def time_text(seconds: float) -> str:
    """Return a time with its unit: `12.3 us`."""
    unit = time_unit(seconds)
    return f"{unit.text(seconds)} {unit.name}"


def rate_of(part_bit_s: float, whole_bit_s: float, text: Callable[[float], str] = "{:.3g}".format) -> str:
    """Return both rates in the unit of the whole, written by `text`: `33.1 of 91.5 Mbit/s`."""
    size, unit = _fitting(_RATES, whole_bit_s)
    return f"{text(part_bit_s / size)} of {text(whole_bit_s / size)} {unit}"


def _fitting(units: Iterable[tuple[float, str]], largest: float) -> tuple[float, str]:
    """Return the largest unit that is not larger than the value, else the smallest."""
    known = list(units)
    return next((each for each in known if largest >= each[0]), known[-1])
