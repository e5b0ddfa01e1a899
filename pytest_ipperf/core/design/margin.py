"""A margin: how much worse than the reference is acceptable.

Separate from the judgement because margins are read at every collection, which must not import scipy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from pytest_ipperf.core.design.metric import Metric, Scale
from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.core.portable.units import parse_percent, parse_points, parse_seconds

_HEADERS = "+headers"
_FLOORS = {"s": "time", "1": "percentage points"}
_FORMS = "use 10% or 10%,0.5ms"


@dataclass(frozen=True, slots=True)
class Margin:
    """Acceptable worsening: a fraction of the reference (0.1 is 10 %), and never less than `at_least`.

    `at_least` is in `unit`: a time ("s"), or a share ("1") if it was given in percentage points. With `headers`, the
    fraction is taken of the value that the reference would reach with the other arm's headers.
    """

    relative: float
    at_least: float = 0.0
    unit: Literal["s", "1"] = "s"
    headers: bool = False

    def __post_init__(self) -> None:
        for name, value in (("margin", self.relative), ("at least", self.at_least)):
            if not 0 <= value < math.inf:
                raise UsageError(f"{name} {value!r} is not a number of zero or more")

    def __str__(self) -> str:
        """Return the text that `parse` reads: `10%,0.5ms`."""
        if self._points_alone:
            return _floor_text(self, "")
        share = f"{_digits(100 * self.relative)}%{_HEADERS if self.headers else ''}"
        return f"{share},{_floor_text(self, '')}" if self.at_least else share

    @property
    def description(self) -> str:
        """The margin in words: `10 % (at least 0.5 ms)`, `1 pp`, `5 % after headers`."""
        if self._points_alone:
            return _floor_text(self, " ")
        share = f"{100 * self.relative:g} %{' after headers' if self.headers else ''}"
        return f"{share} (at least {_floor_text(self, ' ')})" if self.at_least else share

    @property
    def _points_alone(self) -> bool:
        """Return whether the margin is percentage points and nothing else: `1pp`."""
        return bool(self.at_least) and not self.relative and self.unit == "1"

    @staticmethod
    def parse(text: str, *, at_least: str | None = None) -> Margin:
        """Parse `10%`, `10%,0.5ms`, `1pp`, `10%,0.5pp` or `5%+headers`; `at_least` is a floor given separately."""
        return _parsed(text, at_least)

    def check(self, metric: Metric) -> None:
        """Raise UsageError if the margin does not suit `metric`.

        A floor in time does not suit a share, header compensation suits only rates, and a fraction of 1 or more would
        let a rate vanish.
        """
        right = f"use a margin such as {metric.margin}"
        fits = metric.scale == "difference" if self.unit == "1" else metric.unit == "s"
        if self.at_least and not fits:
            kind = {"s": "time", "bit/s": "rate", "packet/s": "rate", "query/s": "rate"}.get(metric.unit, "ratio")
            kind = "share" if metric.scale == "difference" else kind
            floor = _FLOORS[self.unit]
            raise UsageError(f"margin '{self}' has a floor in {floor}, and {metric.title} is a {kind}; {right}")
        if self.headers and metric.unit != "bit/s":
            raise UsageError(f"margin '{self}' compensates for headers, which do not affect {metric.title}; {right}")
        if metric.scale == "ratio" and metric.direction == "higher_is_better":
            check_rate(self.relative)

    def effective(self, reference_value: float, scale: Scale = "ratio", *, header_cost: float = 0.0) -> float:
        """Return the margin that applies at `reference_value` (in the metric's unit): the larger of its two parts.

        The result is a fraction of the reference. On the scale of differences it is a difference of shares, which is 0
        if the reference is 0 and there is no floor. `header_cost` is the share of the rate that headers alone cost the
        other arm. Raises InvalidError if a ratio has no positive finite reference.
        """
        relative = self.relative + header_cost * (1 - self.relative) if self.headers else self.relative
        if scale != "ratio" and 0 <= reference_value < math.inf:
            return max(relative * reference_value, self.at_least)
        if not 0 < reference_value < math.inf:
            raise InvalidError(f"reference value {reference_value!r} is not a positive finite number")
        return max(relative, self.at_least / reference_value)


@lru_cache(maxsize=64)  # a suite has few margins, and thousands of items
def _parsed(text: str, at_least: str | None) -> Margin:
    share, *floors = (part.strip() for part in text.split(","))
    if at_least is not None:
        floors.append(at_least)
    if share.endswith("pp"):
        floors.insert(0, share)
        share = "0%"
    if len(floors) > 1:
        raise UsageError(f"margin {text!r} has more than one floor; {_FORMS}")
    relative = _rounded(parse_percent(share.removesuffix(_HEADERS)))
    points = bool(floors) and floors[0].strip().endswith("pp")
    floor = (parse_points if points else parse_seconds)(floors[0]) if floors else 0.0
    return Margin(relative, _rounded(floor), "1" if points and floor else "s", headers=share.endswith(_HEADERS))


def failure_margin(text: object) -> Margin:
    """Return the margin of the share of failed connections from its text, such as `1pp`; raise UsageError if wrong."""
    found = Margin.parse(text) if isinstance(text, str) else None
    if found is None or found.relative or found.unit != "1" or not 0 < found.at_least < 1:
        raise UsageError(f"margin of failures {text!r} is not a number of percentage points above 0, such as 1pp")
    return found


def check_rate(fraction: float) -> None:
    """Raise UsageError for a fraction of 1 or more, at which a rate would vanish."""
    if fraction >= 1:
        raise UsageError(f"margin {100 * fraction:g} % would let a rate vanish; use less than 100 % for a rate")


def _floor_text(margin: Margin, gap: str) -> str:
    if margin.unit == "1":
        return f"{_digits(100 * margin.at_least)}{gap}pp"
    size, unit = next((pair for pair in ((1.0, "s"), (1e-3, "ms")) if margin.at_least >= pair[0] / 10), (1e-6, "us"))
    return f"{_digits(margin.at_least / size)}{gap}{unit}"


def _digits(number: float) -> str:
    """Format `number` with all of its digits and without an exponent."""
    return format(Decimal(f"{number:.15g}"), "f")


def _rounded(number: float) -> float:
    """Round to 15 digits, which removes the error of dividing by a unit: `0.02ms` equals `20us`."""
    return float(f"{number:.15g}")
