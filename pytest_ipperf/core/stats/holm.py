"""Holm's procedure: p-values of several cells, adjusted so that one error among all of them is as rare as the level."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)


def adjusted(p_values: Mapping[_Key, float]) -> dict[_Key, float]:
    """The step-down adjusted p-values: those at most alpha are shown together with an error of at most alpha.

    The smallest of n counts n times, the next n - 1 times, and so on, none less than one before it and none above 1.
    It holds whatever depends on what. ValueError for what is no p-value, which would spoil all.
    Source: S. Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    wrong = {key: p for key, p in p_values.items() if not 0 <= p <= 1}
    if wrong:
        raise ValueError(f"these are no p-values: {wrong}")
    found: dict[_Key, float] = {}
    least = 0.0
    for before, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - before) * p_values[key]))
        found[key] = least
    return {key: found[key] for key in p_values}
