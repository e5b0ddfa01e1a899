"""Find the known word that a mistyped one is closest to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 64


def closest_match(name: str, there: Iterable[str]) -> str:
    """Return the known word that is closest to a mistyped one, by difflib's ratio; empty where none is close.

    A text that is much longer than a name is no mistyped one.
    """
    if len(name) > _LONGEST:
        return ""
    return next(iter(difflib.get_close_matches(name, list(there), n=1)), "")


def did_you_mean(name: str, there: Iterable[str]) -> str:
    """Return the end of a sentence about a word that does not exist: `; did you mean 'smtp'?`, or nothing."""
    found = closest_match(name, there)
    return f"; did you mean {found!r}?" if found else ""
