"""Find the known word closest to a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 64


def closest_match(name: str, there: Iterable[str]) -> str:
    """Return the known word closest to `name` by difflib's ratio; empty if none is close.

    A text much longer than any name is not treated as a typing error.
    """
    if len(name) > _LONGEST:
        return ""
    return next(iter(difflib.get_close_matches(name, list(there), n=1)), "")


def did_you_mean(name: str, there: Iterable[str]) -> str:
    """Return the end of an error message, such as `; did you mean 'smtp'?`; empty if no known word is close."""
    found = closest_match(name, there)
    return f"; did you mean {found!r}?" if found else ""
