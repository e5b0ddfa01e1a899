"""Build the columns of an arm and its answer, in base units, that CSV files share; flows.csv has its own."""

from __future__ import annotations

import statistics
from typing import Any

from pytest_ipperf.core.records.record import ArmSummary, Record

SHOWN_PHASES = ("dns", "connect", "first_byte")
"""Phases of a connection that tables and CSV files show beside the total."""


def spread(side: ArmSummary) -> float | None:
    """Return the standard deviation of an arm's runs; None for a single run."""
    return statistics.stdev(side.values) if len(side.values) > 1 else None


def failed_text(side: ArmSummary) -> str:
    """Return the failures by kind: `connect refused: 3; reply timeout: 1`."""
    return "; ".join(f"{kind}: {count}" for kind, count in side.failed.items())


def arm_columns(side: ArmSummary) -> dict[str, Any]:
    """Return the medians of an arm's phases, the client share and the rates of its links; None if not known."""
    client_load, rate = side.instrument, side.pace
    return {
        **{f"{name}_s": side.phases.get(name) for name in SHOWN_PHASES},
        "client_share": client_load.share if client_load else None,
        "goodput_bit_s": rate.goodput_bit_s if rate else None,
        "ceiling_bit_s": rate.ceiling_bit_s if rate else None,
        "path_bit_s": rate.path_bit_s if rate else None,
    }


def answer(record: Record) -> dict[str, Any]:
    """Return the columns of a record's answer; the unit of the change is `%` or `pp`."""
    return {
        "change": record.estimate,
        "low": record.low,
        "high": record.high,
        "unit_of_change": record.change_unit,
        "confidence": record.confidence if record.judges else None,
        "margin_fraction": record.margin_fraction,
        "verdict": record.verdict,
    }
