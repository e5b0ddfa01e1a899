"""Metric: a quantity with its unit, direction and meaning, so that no table has to guess them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower_is_better", "higher_is_better"]
Location = Literal["mean", "median"]
Scale = Literal["ratio", "difference", "distance"]

UNITS_OF_CHANGE: dict[Scale, str] = {"ratio": "%", "difference": "pp", "distance": "% from limit"}
"""Units in which changes are shown, by scale; `pp` are percentage points."""

SPEED = ("slower", "faster")
AMOUNT = ("more", "less")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A quantity that a run yields.

    `scale` says how arms are compared: by their ratio, or by their difference if a ratio would be undefined at zero.
    The scale `distance` is that of limits: a mean's distance from its limit, as a share of the limit.
    `location` says how the blocks of an epoch are summarised (the median for times, the mean for throughput).
    `formula` defines the value of a run in words and symbols. `resolution` is in `unit`; a spread of exactly zero
    indicates a broken clock unless the resolution is 0. `label` is the short name of a row below another metric's;
    empty for the title.
    `source` names the RFC or the study that defines the quantity.
    `words` describe a worse and a better arm: with SPEED the arm is "slower", with others, such as AMOUNT, it has
    "more" of the quantity in `title`. `margin` is the default margin.

    A share of connections that may be zero in every run has a `design_effect`: the least variance of its difference,
    as a multiple of the variance of independent connections; 0 for all other quantities. `exceeds_level` is the
    one-sided level at which exceeding a margin is shown, as a share of the level of a look. `version` is that of the
    values by which runs are judged: another one begins a new history.
    """

    name: str
    title: str
    unit: Literal["s", "bit/s", "1", "packet/s", "query/s"]
    direction: Direction
    scale: Scale
    location: Location
    resolution: float
    formula: str
    source: str
    words: tuple[str, str] = SPEED
    margin: str = "10%"
    label: str = ""
    design_effect: float = 0.0
    exceeds_level: float = 1.0
    version: int = 1
