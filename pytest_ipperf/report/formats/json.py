"""JSON (RFC 8259): all data of a session and its night except samples; docs/formats.md explains the keys."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.data.json_document import session_document
from pytest_ipperf.report.formats.base import Report


@dataclass(frozen=True, kw_only=True)
class Json(Report):
    """A document with the version of its schema."""

    name: str = "json"
    title: str = "JSON"
    suffix: str = ".json"

    def render(self, summary: SessionSummary) -> bytes:
        return json.dumps(session_document(summary), indent=1, allow_nan=False).encode() + b"\n"


report = Json()
