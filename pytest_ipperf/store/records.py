"""Records as journals hold them: whether an event is one, in the form of today, with values that can be ones.

A file may hold what nobody wrote; what is taken from it for a record fails here, not where it is compared or drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.record import ArmSummary, Record
from pytest_ipperf.store.migration import migrated

WRONG = (TypeError, ValueError, KeyError, AttributeError, OverflowError)
"""What an event raises that is not what it should be."""

_NUMBERS = (int, float)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": _NUMBERS,
    "int | None": (int, type(None)),
    "float | None": (*_NUMBERS, type(None)),
    "dict[str, int]": (dict,),
    "dict[str, float]": (dict,),
    "dict[str, int | float | str]": (dict,),
}
_MOST = 1 << 62


def record_of(event: Mapping[str, Any], schema: int) -> Record:
    """The record of an event that holds one; UsageError where it lacks something, or has what no record has."""
    try:
        return plain_record(event, schema)
    except WRONG as error:
        raise UsageError(f"the record of {event['cell']} cannot be read ({error})") from None


def plain_record(event: Mapping[str, Any], schema: int) -> Record:
    """As `record_of`; raises one of `WRONG`."""
    plain = {name: value for name, value in migrated(event, schema).items() if name not in ("event", "at")}
    record = Record.from_plain(plain)
    for name, kind in _RECORD:
        checked(getattr(record, name), kind, name)
    for side in (record.test, record.reference):
        for name, kind in _SIDE:
            checked(getattr(side, name), kind, name)
        checked(side.mean, "float", "mean")
    return record


def checked(value: Any, kind: str, name: str = "it") -> Any:
    """The value, where it is one of that kind of field; TypeError or ValueError where it is none."""
    if not isinstance(value, _KINDS[kind]):
        raise TypeError(f"{name} is {value!r:.40}, no {kind}")
    if (type(value) is int and abs(value) > _MOST) or (kind == "float" and value != value):  # noqa: PLR0124 - nan
        raise ValueError(f"{name} is {value!r:.40}")
    return value


def _fields(of: type) -> tuple[tuple[str, str], ...]:
    """Those that have one value, or one of each name, with their kinds."""
    return tuple((each.name, str(each.type)) for each in dataclasses.fields(of) if each.type in _KINDS)


_RECORD, _SIDE = _fields(Record), _fields(ArmSummary)
