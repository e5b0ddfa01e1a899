"""Holm's procedure: adjust the p-values of several cells so that the level bounds the risk of any error among them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)


def adjusted(p_values: Mapping[_Key, float]) -> dict[_Key, float]:
    """Return the step-down adjusted p-values; rejecting those up to alpha has a family-wise error of at most alpha.

    The smallest of n p-values is multiplied by n, the next by n - 1, and so on; the results never decrease and never
    exceed 1. The procedure holds under any dependence. Raises ValueError for a number outside 0..1.
    Source: S. Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    wrong = {key: p for key, p in p_values.items() if not 0 <= p <= 1}
    if wrong:
        raise ValueError(f"these are no p-values: {wrong}")
    result: dict[_Key, float] = {}
    least = 0.0
    for before, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - before) * p_values[key]))
        result[key] = least
    return {key: result[key] for key in p_values}
