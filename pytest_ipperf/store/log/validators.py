"""Validators of the values that the store reads from JSON; each returns whether a value is valid.

`json.loads` accepts more than JSON: oversized numbers, nan and, mostly, infinities are rejected here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import UsageError

Validator = Callable[[Any], bool]

_MOST = 1 << 62
_LAST_S = 253402300799
_SHOWN = 40


def anything(value: object) -> bool:
    """Accept any value."""
    del value
    return True


def text(value: object) -> bool:
    """Accept a text; lone surrogates, left by a command line that is not UTF-8, are allowed in JSON."""
    return isinstance(value, str)


def key(value: object) -> bool:
    """Accept a text that UTF-8 can encode, so that a database and a file name can hold it."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value))


def arm(value: object) -> bool:
    """Accept the text of an arm, such as `ipv6-tunnel`."""
    try:
        Arm.parse(value)  # type: ignore[arg-type] # raises TypeError if it is not text
    except (TypeError, UsageError):
        return False
    return True


def flag(value: object) -> bool:
    """Accept true or false."""
    return isinstance(value, bool)


def whole(value: object) -> bool:
    """Accept an integer that fits a database."""
    return type(value) is int and -_MOST < value < _MOST


def count(value: object) -> bool:
    """Accept an integer of 0 or more."""
    return type(value) is int and 0 <= value < _MOST


def seed(value: object) -> bool:
    """Accept an integer of 0 or more of any size, as `--ipperf-seed` does; databases do not store it."""
    return type(value) is int and value >= 0


def real(value: object) -> bool:
    """Accept a number or an infinity, such as the bound of an interval or a ratio to zero."""
    return not math.isnan(value) if type(value) is float else whole(value)  # the common case comes first, for speed


def finite(value: object) -> bool:
    """Accept a finite number."""
    return math.isfinite(value) if type(value) is float else whole(value)


def not_negative(value: object) -> bool:
    """Accept a finite number of 0 or more."""
    return finite(value) and value >= 0  # type: ignore[operator]


def positive(value: object) -> bool:
    """Accept a finite number above 0."""
    return finite(value) and value > 0  # type: ignore[operator]


def moment(value: object) -> bool:
    """Accept seconds since 1970, up to the year 9999, after which there are no dates."""
    return not_negative(value) and value <= _LAST_S  # type: ignore[operator]


def share(value: object) -> bool:
    """Accept a number above 0 and below 1."""
    return finite(value) and 0 < value < 1  # type: ignore[operator]


def maybe(kind: Validator) -> Validator:
    """Accept null or a value of that kind."""
    return lambda value: value is None or kind(value)


def listed(kind: Validator) -> Validator:
    """Accept a list or tuple of values of that kind."""
    return lambda value: isinstance(value, (list, tuple)) and all(map(kind, value))


def named(kind: Validator) -> Validator:
    """Accept an object whose values are of that kind."""
    return lambda value: isinstance(value, dict) and all(map(kind, value.values()))


def one_of(*validators: Validator) -> Validator:
    """Accept a value of any of these kinds."""
    return lambda value: any(kind(value) for kind in validators)


def among(words: Collection[str]) -> Validator:
    """Accept only these texts."""
    return lambda value: isinstance(value, str) and value in words


def wrong(plain: Mapping[str, Any], needed: Mapping[str, Validator], optional: Mapping[str, Validator]) -> str:
    """Return why an object lacks valid keys, in a few words; empty if it is valid. Other keys are ignored."""
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
    """Format a value for a message, shortened if it is long."""
    text = ascii(value) if not isinstance(value, int) or abs(value) < _MOST else "so large a number"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
