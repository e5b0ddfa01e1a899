"""Repeat comparisons that other work of the machine can disturb."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def lasting(attempts: Iterable[Mapping[Key, Value]]) -> dict[Key, list[Value]]:
    """Return what disagreed in every attempt, with its values; make no further attempt once nothing is left.

    Each attempt gives its disagreements by comparison. A disturbance hits another comparison each time, while a wrong
    instrument fails the same one always. With many comparisons, hardly any attempt on a busy machine has none.
    """
    found: dict[Key, list[Value]] | None = None
    for attempt in attempts:
        found = {
            key: [*found[key], value] if found else [value]
            for key, value in attempt.items()
            if found is None or key in found
        }
        if not found:
            break
    assert found is not None, "no attempt was made"
    return found
