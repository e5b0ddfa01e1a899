"""Axes of the page's plots: from values to percent of the width, with few plain ticks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_TICKS = 6
_LETTER, _GAP = 2.4, 2.2
"""Width of a letter of a label, and the gap between labels, in percent of an axis on a phone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from `low` to `high`; `ticks` are values with their labels. With `log` both ends are above 0."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    log: bool = False

    def at(self, value: float) -> float:
        """Return a value's place in percent of the axis; beyond its ends up to a tenth outside."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return 100 * min(max((value - low) / (high - low), -0.1), 1.1)

    def holds(self, value: float) -> bool:
        """Return whether a value lies on the axis."""
        return self.low <= value <= self.high


def linear(values: Iterable[float], *, include: Iterable[float] = (), room: float = 0.06, most: int = 5) -> Axis:
    """Return an axis over all finite values, with `room` as a share of it at both ends."""
    found = [*(value for value in values if math.isfinite(value)), *include] or [0.0, 1.0]
    low, high = min(found), max(found)
    if low == high:
        low, high = low - (abs(low) or 1.0) * 0.1, high + (abs(high) or 1.0) * 0.1
    space = (high - low) * room
    return plain(low - space, high + space, most)


def plain(low: float, high: float, most: int = 5) -> Axis:
    """Return a linear axis with exactly these ends."""
    step = _step((high - low) / most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple((number * step, f"{number * step:.6g}") for number in range(first, last + 1))
    return Axis(low=low, high=high, ticks=ticks)


def from_zero(values: Iterable[float]) -> Axis:
    """Return an axis that begins at 0."""
    high = max((value for value in values if math.isfinite(value)), default=1.0) or 1.0
    return plain(0.0, high * 1.06)


def logarithmic(values: Iterable[float], *, room: float = 1.08) -> Axis:
    """Return a logarithmic axis over all positive values, with ticks at 1, 2 and 5 of each decade."""
    found = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = min(found) / room, max(found) * room
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for of in ((1, 2, 5), (1, 3), (1,)):
        marks = [digit * 10.0**decade for decade in decades for digit in of]
        inside = [mark for mark in marks if low <= mark <= high]
        if len(inside) <= _MOST_TICKS + 1:
            break
    if len(inside) < 2:
        inside = [value for value, _ in plain(low, high, 4).ticks if value > 0]
    return Axis(low=low, high=high, ticks=tuple((mark, f"{mark:g}") for mark in inside), log=True)


def places(at: Sequence[float], labels: Sequence[str]) -> Axis:
    """Return an axis of levels at given places, with as many of their labels as fit a narrow page."""
    low, high = min(at), max(at)
    space = (high - low) * 0.06 or 1.0
    return thinned(Axis(low=low - space, high=high + space, ticks=tuple(zip(at, labels, strict=True))))


def thinned(axis: Axis) -> Axis:
    """Return the axis without the labels that would overlap others on a narrow page; the last one always stays."""
    kept: list[tuple[float, str]] = []
    for value, text in reversed(axis.ticks):
        if not kept or axis.at(kept[-1][0]) - axis.at(value) >= _LETTER * max(len(text), len(kept[-1][1])) + _GAP:
            kept.append((value, text))
    return dataclasses.replace(axis, ticks=tuple(reversed(kept)))


def _step(rough: float) -> float:
    size = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(size * step for step in _STEPS if size * step >= rough * 0.999)
