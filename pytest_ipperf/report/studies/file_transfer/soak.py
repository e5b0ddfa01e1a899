"""Soak: drift, stalls, failures, memory and descriptors of long transfers, arm by arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.scaling import time_text
from pytest_ipperf.core.portable.units import bytes_text, seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.records.transfer_course import TransferCourse
from pytest_ipperf.core.stats.drift import slope_interval
from pytest_ipperf.core.stats.interval import Interval
from pytest_ipperf.report.studies.file_transfer.tables import sides_of
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.network_notes import testbed_text

STALL_S = 1.0
"""Time without a byte from which on a run counts as stalled."""
STEADY, DRIFTS, OPEN = "steady", "drifts", "open"
"""Verdicts on a slope: its interval is within the tolerance, or it is not and excludes zero, or it does neither."""
_TOLERANCE = 0.01
_LEAST_MINUTES = 10
_CONFIDENCE = 0.95
_HOUR_S, _MEBI = 3600.0, 2**20
_MEMORY = (
    ("memory of the client's agent", "agent_bytes"),
    ("memory of the server", "server_bytes"),
    ("memory of the server's agent", "server_agent_bytes"),
)
_DESCRIPTORS = (
    ("descriptors of the client's agent", "agent_descriptors"),
    ("descriptors of the server", "server_descriptors"),
    ("descriptors of the server's agent", "server_agent_descriptors"),
)
NOTES = (
    f"Drift: slope of each minute's goodput in percent an hour, with a {_CONFIDENCE:.0%} interval that allows for",
    f"minutes which resemble their neighbours. {STEADY}: the whole interval is within {_TOLERANCE:.0%} of the goodput",
    f"over the time measured; {DRIFTS}: it is not, and excludes zero; {OPEN}: neither, which more hours would decide.",
    f"A run is stalled if no byte came for {STALL_S:g} s or more. Memory is what processes do not share; it and open",
    "descriptors are those after the first and the last run, with the slope an hour if its interval excludes zero.",
)


@dataclass(frozen=True, slots=True)
class Drift:
    """Drift of a course's goodput: the relative slope an hour, and the verdict on the `hours` that were measured."""

    slope: Interval
    hours: float
    verdict: str


def drift_of(course: TransferCourse) -> Drift | None:
    """Return the drift of the goodput, minute by minute; None for too few of them."""
    rates, hours = [row[1] for row in course.minutes], [row[0] / _HOUR_S for row in course.minutes]
    mean = sum(rates) / len(rates)
    found = slope_interval(hours, [rate / mean for rate in rates], _CONFIDENCE)
    if found is None:
        return None
    low, high = (bound * hours[-1] for bound in (found.low, found.high))
    if max(abs(low), abs(high)) <= _TOLERANCE:
        return Drift(found, hours[-1], STEADY)
    return Drift(found, hours[-1], DRIFTS if found.excludes_zero else OPEN)


def soak_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table for each size of the file whose arms have enough runs; the records are of one group."""
    return [
        table
        for size in sorted({record.payload_bytes for record in records})
        if (table := _table([record for record in records if record.payload_bytes == size]))
    ]


def _table(records: Sequence[Record]) -> Table | None:
    courses = {
        arm: own[size].course for arm, own in sides_of(records).items() for size in own if own[size].course is not None
    }
    if not courses or min(len(course.minutes) for course in courses.values() if course) < _LEAST_MINUTES:
        return None
    found = [course for course in courses.values() if course]
    first = records[0]
    rows: list[Row] = [
        ("", [arm.title for arm in courses]),
        ("runs", [str(len(each.runs)) for each in found]),
        ("drift an hour", [_drift_text(each) for each in found]),
        ("verdict on the drift", [drift.verdict if (drift := drift_of(each)) else "" for each in found]),
        ("stalled runs", [str(sum(gap_s >= STALL_S for gap_s in each.column("longest_gap_s"))) for each in found]),
        ("longest gap", [time_text(max(each.column("longest_gap_s"))) for each in found]),
        ("transfers", [f"{sum(each.column('transfers')):.0f}" for each in found]),
        ("failed transfers", [f"{sum(each.column('failures')):.0f}" for each in found]),
        *((title, [_growth(each, name, _MEBI, " MiB") for each in found]) for title, name in _MEMORY),
        *((title, [_growth(each, name, 1, "") for each in found]) for title, name in _DESCRIPTORS),
    ]
    hours = max(each.column("at_s")[-1] for each in found) + first.run_s
    return Table(
        title=f"Soak: transfers of {bytes_text(first.payload_bytes)} over {seconds_text(hours)}",
        about=(testbed_text(records), f"design {first.design}, runs of {seconds_text(first.run_s)}"),
        rows=tuple(row for row in rows if row is rows[0] or any(row[1])),
    )


def _drift_text(course: TransferCourse) -> str:
    drift = drift_of(course)
    if drift is None:
        return ""
    slope, low, high = (100 * each for each in (drift.slope.estimate, drift.slope.low, drift.slope.high))
    return f"{slope:+.2f} % [{low:+.2f}, {high:+.2f}]"


def _growth(course: TransferCourse, name: str, size: float, unit: str) -> str:
    """Return the first and the last value, and the slope if there is one; empty if no host has reported it."""
    values = course.column(name)
    if not values:
        return ""
    text = f"{values[0] / size:.4g} to {values[-1] / size:.4g}{unit}"
    slope = slope_interval([at_s / _HOUR_S for at_s in course.column("at_s")], values, _CONFIDENCE)
    if slope is None or not slope.excludes_zero:
        return text
    return f"{text} ({slope.estimate / size:+.2g} an hour)"
