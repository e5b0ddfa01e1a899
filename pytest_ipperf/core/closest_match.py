"""Find the known word closest to a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 64


def closest_match(name: str, known: Iterable[str]) -> str:
    """Return the known word closest to `name` by difflib's ratio; empty if none is close.

    A text much longer than any name is not treated as a typing error.
    """
    if len(name) > _LONGEST:
        return ""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message, such as `; did you mean 'smtp'?`; empty if no known word is close."""
    match = closest_match(name, known)
    return f"; did you mean {match!r}?" if match else ""
