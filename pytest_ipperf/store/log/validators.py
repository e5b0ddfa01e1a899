"""Validators of the values that the store reads from JSON: each is a function that says whether a value is valid.

What json.loads accepts is more than JSON: numbers without end, nan and infinities are refused here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

Validator = Callable[[Any], bool]

_MOST = 1 << 62
_LAST_S = 253402300799
_SHOWN = 40


def anything(value: object) -> bool:
    """Whatever is there."""
    del value
    return True


def text(value: object) -> bool:
    """A text; a command line that is not UTF-8 leaves half of a character in one, which JSON can hold."""
    return isinstance(value, str)


def key(value: object) -> bool:
    """A text that UTF-8 can hold, and so a database and a file's name."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value))


def flag(value: object) -> bool:
    """True or false."""
    return isinstance(value, bool)


def whole(value: object) -> bool:
    """A whole number that fits a database."""
    return type(value) is int and -_MOST < value < _MOST


def count(value: object) -> bool:
    """A whole number of 0 or more."""
    return type(value) is int and 0 <= value < _MOST


def seed(value: object) -> bool:
    """A whole number of 0 or more of any size, as `--ipperf-seed` takes it; no database holds it."""
    return type(value) is int and value >= 0


def real(value: object) -> bool:
    """A number, or an infinity: the bound of an interval, or a share of nothing, may be one."""
    return not math.isnan(value) if type(value) is float else whole(value)  # most are: it is asked of every run


def finite(value: object) -> bool:
    """A number with an end."""
    return math.isfinite(value) if type(value) is float else whole(value)


def not_negative(value: object) -> bool:
    """A finite number of 0 or more."""
    return finite(value) and value >= 0  # type: ignore[operator]


def positive(value: object) -> bool:
    """A finite number above 0."""
    return finite(value) and value > 0  # type: ignore[operator]


def moment(value: object) -> bool:
    """Seconds since 1970, up to the year 9999: later ones have no date."""
    return not_negative(value) and value <= _LAST_S  # type: ignore[operator]


def share(value: object) -> bool:
    """A number above 0 and below 1."""
    return finite(value) and 0 < value < 1  # type: ignore[operator]


def maybe(kind: Validator) -> Validator:
    """Accept null beside such values."""
    return lambda value: value is None or kind(value)


def listed(kind: Validator) -> Validator:
    """A list of such values; a tuple is one as well."""
    return lambda value: isinstance(value, (list, tuple)) and all(map(kind, value))


def named(kind: Validator) -> Validator:
    """An object whose values are such."""
    return lambda value: isinstance(value, dict) and all(map(kind, value.values()))


def one_of(*validators: Validator) -> Validator:
    """A value of one of these kinds."""
    return lambda value: any(kind(value) for kind in validators)


def among(words: Collection[str]) -> Validator:
    """Accept these texts alone."""
    return lambda value: isinstance(value, str) and value in words


def wrong(plain: Mapping[str, Any], needed: Mapping[str, Validator], optional: Mapping[str, Validator]) -> str:
    """Why an object is not one with these keys, in a few words; empty where it is one. Other keys may be there."""
    for name, kind in needed.items():
        if name not in plain:
            return f"it has no {name!r}"
        if not kind(plain[name]):
            return f"{name!r} cannot be {shown(plain[name])}"
    for name, kind in optional.items():
        if name in plain and not kind(plain[name]):
            return f"{name!r} cannot be {shown(plain[name])}"
    return ""


def shown(value: object) -> str:
    """A value for a sentence: not more of it than a reader needs."""
    found = ascii(value) if not isinstance(value, int) or abs(value) < _MOST else "so large a number"
    return found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."
