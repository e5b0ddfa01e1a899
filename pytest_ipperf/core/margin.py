"""A margin: how much worse than the reference is acceptable.

Apart from the judgement, as it is read at every collection and must not cost the import of scipy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_ipperf.core.errors import InvalidError, UsageError
from pytest_ipperf.core.units import parse_percent, parse_seconds, seconds_text


@dataclass(frozen=True, slots=True)
class Margin:
    """How much worse is acceptable: a fraction of the reference (0.1 is 10 %), and never less than `at_least`.

    `at_least` is in the metric's base unit; text forms know it as a time.
    """

    relative: float
    at_least: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("margin", self.relative), ("at least", self.at_least)):
            if not 0 <= value < math.inf:
                raise UsageError(f"{name} {value!r} is not a number of zero or more")

    def __str__(self) -> str:
        floor = f" (at least {seconds_text(self.at_least)})" if self.at_least else ""
        return f"{100 * self.relative:g} %{floor}"

    @classmethod
    def parse(cls, text: str, *, at_least: str | None = None) -> Margin:
        """`10%` or `10%,0.5ms`; the floor may be given apart as `at_least="0.5ms"`."""
        share, *floors = (part.strip() for part in text.split(","))
        if at_least is not None:
            floors.append(at_least)
        if len(floors) > 1:
            raise UsageError(f"margin {text!r} has more than one floor; right is 10% or 10%,0.5ms")
        return cls(parse_percent(share), parse_seconds(floors[0]) if floors else 0.0)

    def effective(self, reference_value: float) -> float:
        """The fraction that counts at this reference (in the metric's unit): the larger of the two parts."""
        if not 0 < reference_value < math.inf:
            raise InvalidError(f"reference value {reference_value!r} is not a positive finite number")
        return max(self.relative, self.at_least / reference_value)
