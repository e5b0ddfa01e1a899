"""Migrate events of earlier schemas to the current one.

A schema is supported as long as no value must be invented for it: missing values are marked as missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_ipperf.core.design.design import never_judges
from pytest_ipperf.core.portable.errors import UsageError

SCHEMA = 7
"""Current schema of the events, written with event `session`."""

Facts = Mapping[str, Any]


def _from_5(event: Facts) -> Facts:
    """Add names of sessions and keys of histories, which schema 5 lacked; an unknown version has its own history."""
    if event["event"] == "session":
        return {"saved": "", **event}
    if event["event"] == "record":
        return {"workload_version": "", "fingerprint": "", "nodeid": "", "p_exceeds": None, **event}
    return event


def _from_6(event: Facts) -> Facts:
    """Mark records of designs that never judge as unjudged, without the interval that schema 6 kept.

    Schema 6 called them measured or inconclusive. It had no checksums of lines or samples.
    """
    if event["event"] != "record" or event.get("judges") is not False or event.get("verdict") == "invalid":
        return event
    unjudged = {"verdict": "unjudged", "reasons": ["never_judges"], "sentence": never_judges(str(event.get("design")))}
    return {**event, **unjudged, "low": None, "high": None, "p_exceeds": None}


_STEPS: Mapping[int, Callable[[Facts], Facts]] = {5: _from_5, 6: _from_6}
OLDEST = min(_STEPS)
"""Oldest supported schema."""
WITH_END = 6
_WITH_CHECKSUMS = 7


def check_schema(schema: object, where: str) -> int:
    """Return the schema of a session's records; UsageError if this version cannot read it."""
    if isinstance(schema, int) and OLDEST <= schema <= SCHEMA:
        return schema
    newer = isinstance(schema, int) and schema > SCHEMA
    remedy = "; a newer pytest-ipperf wrote it, install that" if newer else ""
    raise UsageError(
        f"session {where} has records of schema {schema}; this version reads schemas {OLDEST} to {SCHEMA}{remedy}"
    )


def tells_end(schema: int) -> bool:
    """Return whether sessions of a schema log how they ended."""
    return schema >= WITH_END


def has_checksums(schema: int) -> bool:
    """Return whether a schema requires a checksum in each line; a line that has one anyway is verified, too."""
    return schema >= _WITH_CHECKSUMS


def migrated(event: Facts, schema: int) -> Facts:
    """Return an event in the current schema."""
    for step in range(schema, SCHEMA):
        event = _STEPS[step](event)
    return event
