"""Migration: what was written by earlier versions, in the form of today.

A schema is read as long as nothing has to be invented for it: what it lacks has a value that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_ipperf.core.errors import UsageError

SCHEMA = 6
"""Of the events that are written today (event `session`)."""

Facts = Mapping[str, Any]


def _from_5(event: Facts) -> Facts:
    """Schema 5 knew neither names of sessions nor what a history is by; an unknown version is a history of its own."""
    if event["event"] == "session":
        return {"saved": "", **event}
    if event["event"] == "record":
        return {"workload_version": "", "fingerprint": "", "nodeid": "", "p_exceeds": None, **event}
    return event


_STEPS: Mapping[int, Callable[[Facts], Facts]] = {5: _from_5}
OLDEST = min(_STEPS)
"""The oldest schema that is read."""
_WITH_END = 6


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
    return schema >= _WITH_END


def migrated(event: Facts, schema: int) -> Facts:
    """An event as today's version would have written it."""
    for step in range(schema, SCHEMA):
        event = _STEPS[step](event)
    return event
