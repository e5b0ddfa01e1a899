"""Metric: a quantity with its unit, direction and meaning, so that no table has to guess them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower_is_better", "higher_is_better"]
Location = Literal["mean", "median"]
Scale = Literal["ratio", "difference"]

UNITS_OF_CHANGE: dict[Scale, str] = {"ratio": "%", "difference": "pp"}
"""In what people read a change; `pp` are percentage points."""

SPEED = ("slower", "faster")
AMOUNT = ("more", "less")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A quantity that a run yields.

    `scale` says how arms are compared: by their ratio, or by their difference where a ratio is undefined at zero.
    `location` is how the blocks of an epoch are summarised (the median for times, the mean for throughput).
    `formula` is what a run's value is, in words and signs. `resolution` is in `unit`; a spread of exactly zero below it
    is a broken clock, not a result. `label` is the short name of a row below another metric's; empty: the title.
    `source` names the RFC or the study that defines the quantity.
    `words` are what a worse and a better arm are called: SPEED says that it is slower; others, such as AMOUNT, that it
    has more of what the title names. `margin` is what is asked where nobody says a margin.
    """

    name: str
    title: str
    unit: Literal["s", "bit/s", "1", "packet/s"]
    direction: Direction
    scale: Scale
    location: Location
    resolution: float
    formula: str
    source: str
    words: tuple[str, str] = SPEED
    margin: str = "10%"
    label: str = ""
