"""Migrate events of earlier schemas to the form of today.

A schema is read as long as nothing has to be invented for it: what it lacks has a value that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_ipperf.core.design.design import never_judges
from pytest_ipperf.core.portable.errors import UsageError

SCHEMA = 7
"""Of the events that are written today (event `session`)."""

Facts = Mapping[str, Any]


def _from_5(event: Facts) -> Facts:
    """Schema 5 knew neither names of sessions nor what a history is by; an unknown version is a history of its own."""
    if event["event"] == "session":
        return {"saved": "", **event}
    if event["event"] == "record":
        return {"workload_version": "", "fingerprint": "", "nodeid": "", "p_exceeds": None, **event}
    return event


def _from_6(event: Facts) -> Facts:
    """Schema 6 called a cell under a design that never judges measured or inconclusive, and kept its interval.

    It had no checksums of lines or samples.
    """
    if event["event"] != "record" or event.get("judges") is not False or event.get("verdict") == "invalid":
        return event
    unjudged = {"verdict": "unjudged", "reasons": ["never_judges"], "sentence": never_judges(str(event.get("design")))}
    return {**event, **unjudged, "low": None, "high": None, "p_exceeds": None}


_STEPS: Mapping[int, Callable[[Facts], Facts]] = {5: _from_5, 6: _from_6}
OLDEST = min(_STEPS)
"""The oldest schema that is read."""
WITH_END = 6
_WITH_CHECKSUMS = 7


def check_schema(schema: object, where: str) -> int:
    """The schema of a session's records; UsageError where this version cannot read them."""
    if isinstance(schema, int) and OLDEST <= schema <= SCHEMA:
        return schema
    newer = isinstance(schema, int) and schema > SCHEMA
    remedy = "; a newer pytest-ipperf wrote it, install that" if newer else ""
    raise UsageError(
        f"session {where} has records of schema {schema}; this version reads schemas {OLDEST} to {SCHEMA}{remedy}"
    )


def tells_end(schema: int) -> bool:
    """Whether sessions of a schema keep how they ended."""
    return schema >= WITH_END


def has_checksums(schema: int) -> bool:
    """Whether each line of a schema has a checksum; of a line that has one all the same it is looked at too."""
    return schema >= _WITH_CHECKSUMS


def migrated(event: Facts, schema: int) -> Facts:
    """An event as today's version would have written it."""
    for step in range(schema, SCHEMA):
        event = _STEPS[step](event)
    return event
