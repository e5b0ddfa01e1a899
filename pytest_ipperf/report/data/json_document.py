"""Build the JSON documents of a session and a night; docs/formats.md explains the keys.

The documents are valid JSON for every reader: a number that is not finite is None, and a lone surrogate, which Python
makes of a byte that is not UTF-8, is a question mark.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pytest_ipperf import __version__
from pytest_ipperf.core.nightly.aa_check import AACheck
from pytest_ipperf.core.nightly.report import CellReport, GateDecision, NightReport
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS

NIGHT_SCHEMA = 1
"""Version of a night's document; keys may be added without a new version."""

SESSION_SCHEMA = 1
"""Version of a session's document."""


def session_document(summary: SessionSummary) -> dict[str, Any]:
    """Return all data of a session except its samples, with its night if it was the screening of one."""
    night = summary.night and night_document(
        summary.night, session=summary.name, saved=summary.saved, began_at=summary.began_at, seconds=summary.seconds
    )
    found: dict[str, Any] = plain(
        {
            "schema": SESSION_SCHEMA,
            "made_by": _maker(),
            "state": summary.completeness.state.value,
            "banner": summary.completeness.banner,
            "cells_measured": summary.completeness.measured if summary.completeness.planned is not None else None,
            "cells_planned": summary.completeness.planned,
            "session": summary.name,
            "folder": summary.folder,
            "saved": summary.saved,
            "began_at": summary.began_at,
            "seconds": summary.seconds,
            "question": summary.question,
            "records": [record.to_plain() for record in summary.records],
            "troubles": [dataclasses.asdict(trouble) for trouble in summary.troubles],
            "hosts": [dataclasses.asdict(host) for host in summary.hosts],
            "notes": summary.notes,
            "night": night,
        }
    )
    return found


def night_document(
    night: NightReport,
    *,
    session: str,
    saved: str = "",
    began_at: float | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Return the document of a night, as in its `verdict.json`; `session` is its screening, `saved` its name."""
    found: dict[str, Any] = plain(
        {
            "schema": NIGHT_SCHEMA,
            "made_by": _maker(),
            "session": session,
            "saved": saved,
            "began_at": began_at,
            "seconds": seconds,
            "light": night.gate_status.name.lower(),
            "status": night.gate_status.value,
            "headline": night.headline,
            "counts": _counts(night),
            "family_alpha": night.family_alpha,
            "history_alpha": night.history_alpha,
            "sentinel": _aa_check(night.aa_check),
            "warnings": night.warnings,
            "notes": night.notes,
            "troubles": [{"nodeid": name, "sentence": sentence} for name, sentence in night.troubles.items()],
            "cells": [_cell(cell) for cell in (*night.cells, *night.quiet)],
        }
    )
    return found


def plain(value: Any) -> Any:
    """Return a value in JSON's types; numbers that are not finite become None, lone surrogates question marks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, PurePath):
        return _text(str(value))
    if isinstance(value, Mapping):
        return {_text(str(name)): plain(each) for name, each in value.items()}
    return [plain(each) for each in value]


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _maker() -> str:
    return f"pytest-ipperf {__version__}"


def _counts(night: NightReport) -> dict[str, int]:
    """Return the number of cells that reports show for every ruling, including those without cells."""
    found = Counter(cell.decision for cell in night.cells)
    return {decision.name.lower(): found[decision] for decision in GateDecision}


def _aa_check(found: AACheck | None) -> dict[str, Any] | None:
    return {**dataclasses.asdict(found), "stable": found.stable} if found else None


def _cell(cell: CellReport) -> dict[str, Any]:
    return {
        "cell": cell.key.cell,
        "metric": cell.key.metric,
        "version": cell.key.version,
        "ruling": cell.decision.name.lower(),
        "sentence": cell.sentence,
        "nodeid": cell.record.nodeid if cell.record else "",
        "flagged": cell.flagged,
        "p_fresh": cell.p_fresh,
        "p_adjusted": cell.p_adjusted,
        "p_history": cell.p_history,
        "p_history_adjusted": cell.p_history_adjusted,
        "nights": cell.nights,
        "screen": _figures(cell.screen),
        "fresh": _figures(cell.fresh),
    }


def _figures(record: Record | None) -> dict[str, Any] | None:
    """Return the main figures of a measurement."""
    if record is None:
        return None
    return {
        "verdict": record.verdict,
        "change": record.estimate,
        "low": record.low,
        "high": record.high,
        "change_unit": record.change_unit,
        "confidence": record.confidence,
        "lower_bound": record.lower_bound,
        "upper_bound": record.upper_bound,
        "margin": record.margin,
        "margin_fraction": record.margin_fraction,
        "p_exceeds": record.p_exceeds,
        "epochs": record.epochs,
        "blocks": record.blocks,
        "fingerprint": record.fingerprint,
        "unit": METRICS[record.metric].metric.unit,
        "test": _side(record.test),
        "reference": _side(record.reference),
    }


def _side(side: ArmSummary) -> dict[str, Any]:
    return {
        "arm": str(side.arm),
        "mean": side.mean,
        "runs": len(side.values),
        "attempted": side.attempted,
        "completed": side.completed,
        "failed": side.failed,
    }
