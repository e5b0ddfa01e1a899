"""What a metric is: a quantity with its meaning, so that no table has to guess it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower_is_better", "higher_is_better"]
Location = Literal["mean", "median"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A quantity that a run yields.

    `scale` says how arms are compared: by their ratio, or by their difference where a ratio is undefined at zero.
    `location` is how the blocks of an epoch are summarised (the median for times, the mean for throughput).
    `resolution` is in `unit`; a spread of exactly zero below it is a broken clock, not a result.
    `source` names the RFC or the study that defines the quantity.
    """

    name: str
    title: str
    unit: Literal["s", "bit/s", "1", "packet/s"]
    direction: Direction
    scale: Literal["ratio", "difference"]
    location: Location
    resolution: float
    source: str
