"""A margin: how much worse than the reference is acceptable.

Apart from the judgement, as it is read at every collection and must not cost the import of scipy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from pytest_ipperf.core.design.metric import Metric, Scale
from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.core.portable.units import parse_percent, parse_points, parse_seconds

_HEADERS = "+headers"
_FLOORS = {"s": "time", "1": "percentage points"}
_FORMS = "right is 10% or 10%,0.5ms"


@dataclass(frozen=True, slots=True)
class Margin:
    """How much worse is acceptable: a fraction of the reference (0.1 is 10 %), and never less than `at_least`.

    `at_least` is in `unit`: a time, or a share where it is in percentage points. With `headers` the fraction is that of
    what the reference would reach under the other arm's headers.
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
        """The inverse of `parse`: `10%,0.5ms`."""
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
        """Whether it is percentage points and nothing else: `1pp`."""
        return bool(self.at_least) and not self.relative and self.unit == "1"

    @classmethod
    def parse(cls, text: str, *, at_least: str | None = None) -> Margin:
        """`10%`, `10%,0.5ms`, `1pp`, `10%,0.5pp` or `5%+headers`; the floor may be given apart, `at_least="0.5ms"`."""
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
        return cls(relative, _rounded(floor), "1" if points and floor else "s", headers=share.endswith(_HEADERS))

    def check(self, metric: Metric) -> None:
        """UsageError where that makes no sense for a metric: a floor in time for a share, headers for what is no rate.

        Nor does a fraction at which a rate would have to vanish.
        """
        right = f"right is a margin such as {metric.margin}"
        fits = metric.scale == "difference" if self.unit == "1" else metric.unit == "s"
        if self.at_least and not fits:
            kind = {"s": "time", "bit/s": "rate", "packet/s": "rate"}.get(metric.unit, "ratio")
            kind = "share" if metric.scale == "difference" else kind
            floor = _FLOORS[self.unit]
            raise UsageError(f"margin '{self}' has a floor in {floor}, and {metric.title} is a {kind}; {right}")
        if self.headers and metric.unit != "bit/s":
            raise UsageError(f"margin '{self}' makes up for headers, which cost no {metric.title}; {right}")
        if metric.scale == "ratio" and metric.direction == "higher_is_better":
            check_rate(self.relative)

    def effective(self, reference_value: float, scale: Scale = "ratio", *, header_cost: float = 0.0) -> float:
        """What counts at this reference (in the metric's unit), the larger of the two parts.

        A fraction of the reference; on the scale of differences a difference of shares, 0 where the reference is 0 and
        there is no floor. `header_cost` is the share that headers alone cost the other arm.
        """
        relative = self.relative + header_cost * (1 - self.relative) if self.headers else self.relative
        if scale == "difference" and 0 <= reference_value < math.inf:
            return max(relative * reference_value, self.at_least)
        if not 0 < reference_value < math.inf:
            raise InvalidError(f"reference value {reference_value!r} is not a positive finite number")
        return max(relative, self.at_least / reference_value)


def check_rate(fraction: float) -> None:
    """UsageError where a rate would have to vanish: a fraction of 1 or more."""
    if fraction >= 1:
        raise UsageError(f"margin {100 * fraction:g} % would let a rate vanish; below 100 % is right for a rate")


def _floor_text(margin: Margin, gap: str) -> str:
    if margin.unit == "1":
        return f"{_digits(100 * margin.at_least)}{gap}pp"
    size, unit = next((pair for pair in ((1.0, "s"), (1e-3, "ms")) if margin.at_least >= pair[0] / 10), (1e-6, "us"))
    return f"{_digits(margin.at_least / size)}{gap}{unit}"


def _digits(number: float) -> str:
    """All digits that a person wrote, without an exponent."""
    return format(Decimal(f"{number:.15g}"), "f")


def _rounded(number: float) -> float:
    """What the division by a unit has added beyond 15 digits is no part of a margin: `0.02ms` is `20us`."""
    return float(f"{number:.15g}")
