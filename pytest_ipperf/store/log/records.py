"""Validate the records in event logs in the current schema: keys and values.

A file may hold anything; an invalid record fails here, not where it is compared or drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pytest_ipperf.core.measurement.client_load import ClientLoad
from pytest_ipperf.core.measurement.link_rate import LinkRate
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.first_estimate import FirstEstimate
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.records.transfer_course import RUN_COLUMNS, SECOND_COLUMNS, TransferCourse
from pytest_ipperf.store.log import validators as valid
from pytest_ipperf.store.log.checksum import KEY
from pytest_ipperf.store.log.validators import Validator

INVALID_EVENT_ERRORS = (TypeError, ValueError, KeyError, AttributeError, OverflowError)
"""Exceptions that an invalid event raises."""

VERDICTS = frozenset({"within", "exceeds", "inconclusive", "invalid", "measured", "unjudged"})
"""Verdicts of a record: those of `Verdict`, and `measured` without a question; `Verdict` would load scipy."""

_OF_TYPE: Mapping[str, Validator] = {
    "str": valid.text,
    "bool": valid.flag,
    "int": valid.count,
    "float": valid.finite,
    "int | None": valid.maybe(valid.count),
    "float | None": valid.maybe(valid.finite),
    "tuple[str, ...]": valid.listed(valid.text),
    "tuple[float, ...]": valid.listed(valid.real),
    "dict[str, int]": valid.named(valid.count),
    "dict[str, float]": valid.named(valid.real),
    "dict[str, float | None]": valid.named(valid.maybe(valid.real)),
    "dict[str, int | float | str]": valid.named(valid.one_of(valid.text, valid.finite)),
}
_PHASES = {"dns", "connect", "first_byte", "total"}
_SPREAD = valid.maybe(lambda value: valid.real(value) and value >= 0)
_KEYS = ("cell", "metric", "workload_version", "margin", "fingerprint", "taken_from")
_OWN: Mapping[str, Validator] = {
    **dict.fromkeys(_KEYS, valid.key),
    "estimate": valid.maybe(valid.real), "low": valid.maybe(valid.real), "high": valid.maybe(valid.real),
    "lower_bound": valid.maybe(valid.real), "upper_bound": valid.maybe(valid.real),
    "sd_epoch": _SPREAD, "sd_block": _SPREAD, "seed": valid.seed, "deadline_s": valid.not_negative,
    "margin_fraction": valid.maybe(valid.not_negative),
    "epochs": lambda value: valid.count(value) and value > 0, "blocks": lambda value: valid.count(value) and value > 0,
    "confidence": valid.share, "alpha": valid.share, "verdict": valid.among(VERDICTS),
}  # fmt: skip
"""Validators of fields for which the type is too wide or too narrow: a bound of an interval may be infinite."""


def plain_record(event: Mapping[str, Any]) -> Record:
    """Return the record of an event in the current schema; raise one of `INVALID_EVENT_ERRORS` if it is invalid."""
    plain = {name: value for name, value in event.items() if name not in ("event", "at", KEY)}
    _check_all_keys(plain)
    sides = {name: _filled(plain[name]) for name in ("test", "reference")}
    try:
        record = Record.from_plain({**plain, **sides})
    except UsageError as error:
        raise ValueError(str(error)) from None
    _check(record, _RECORD)
    for first in filter(None, (record.confirms, *(each.confirms for each in record.components))):
        _check(first, _FIRST)
    for side in (record.test, record.reference):
        _check(side, _SIDE)
        if side.instrument is not None:
            _check(side.instrument, _CLIENT_LOAD)
        if side.pace is not None:
            _check(side.pace, _LINK_RATE)
        if side.course is not None:
            _check_course(side.course)
        if not valid.real(side.mean):
            raise ValueError(f"the mean of {side.arm} is no number")
        if side.phases and side.phases.keys() != _PHASES:
            raise ValueError(f"the phases of {side.arm} are not {', '.join(sorted(_PHASES))}")
    _check_interval(record)
    return record


def _check_course(course: TransferCourse) -> None:
    of = ((course.seconds, SECOND_COLUMNS), (course.minutes, SECOND_COLUMNS), (course.runs, RUN_COLUMNS))
    for rows, columns in of:
        for row in rows:
            if len(row) != len(columns) or not all(map(valid.finite, row)):
                raise ValueError(f"a row of a course {valid.shown(row)} is not {', '.join(columns)}")


def _check_all_keys(plain: Mapping[str, Any]) -> None:
    _check_keys(plain, Record)
    for name in ("test", "reference"):
        _check_keys(plain[name], ArmSummary)
        for part, of in (("instrument", ClientLoad), ("pace", LinkRate), ("course", TransferCourse)):
            if plain[name].get(part) is not None:
                _check_keys(plain[name][part], of)
    for owner in (plain, *plain.get("components", ())):
        if owner.get("confirms") is not None:
            _check_keys(owner["confirms"], FirstEstimate)


def _check_keys(plain: Any, of: type) -> None:
    if not isinstance(plain, dict):
        raise TypeError(f"of a record {valid.shown(plain)} is no {of.__name__}")
    known, needed = _fields(of)
    if not plain.keys() <= known:
        raise ValueError(f"a record has no {min(plain.keys() - known)!r}")
    if not needed <= plain.keys():
        raise ValueError(f"of a record {min(needed - plain.keys())!r} is missing")


@lru_cache
def _fields(of: type) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of all fields, and of those that have no default."""
    fields, none = dataclasses.fields(of), dataclasses.MISSING
    needed = (each.name for each in fields if each.default is none and each.default_factory is none)
    return frozenset(each.name for each in fields), frozenset(needed)


def _filled(side: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an arm with defaults for the keys that early versions did not write."""
    return {"instrument": None, "pace": None, "completed_values": (), "notes": (), **side}


def _check(owner: Any, of: Mapping[str, Validator]) -> None:
    for name, kind in of.items():
        value = getattr(owner, name)
        if not kind(value):
            raise TypeError(f"of a record {name!r} cannot be {valid.shown(value)}")


def _check_interval(record: Record) -> None:
    bounds = (record.low, record.estimate, record.high)
    known = [bound for bound in bounds if bound is not None]
    if len(known) == len(bounds) and sorted(known) != known:
        raise ValueError(f"of a record [{record.low}, {record.high}] cannot be the interval of {record.estimate}")
    own = record.metric_verdict or record.verdict
    if own in ("within", "exceeds") and (record.margin_fraction is None or len(known) < len(bounds)):
        raise ValueError(f"a record without a margin or an interval cannot be {own!r}")


def _validators_of(what: type, own: Mapping[str, Validator] | None = None) -> dict[str, Validator]:
    types = {each.name: str(each.type) for each in dataclasses.fields(what)}
    return {name: _OF_TYPE[kind] for name, kind in types.items() if kind in _OF_TYPE} | dict(own or {})


_RECORD, _SIDE = _validators_of(Record, _OWN), _validators_of(ArmSummary)
_FIRST = _validators_of(FirstEstimate, dict.fromkeys(("estimate", "lower_bound", "upper_bound"), valid.real))
_CLIENT_LOAD, _LINK_RATE = _validators_of(ClientLoad), _validators_of(LinkRate)
