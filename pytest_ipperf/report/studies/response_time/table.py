"""Common parts of the study's tables: structure, rows and cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_ipperf.core.design.cell import Arm, client_text
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import Interval
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import application
from pytest_ipperf.report.studies.response_time.formulas import StudyIncrease, study_increase
from pytest_ipperf.report.studies.response_time.printed import (
    DOUBTS,
    INCREASES,
    MEANS,
    REFERENCE,
    TABLES,
    PrintedIncrease,
)
from pytest_ipperf.report.tables import layout
from pytest_ipperf.report.tables.arm_rows import reused_lines
from pytest_ipperf.report.tables.layout import Row, T, aligned
from pytest_ipperf.report.tables.network_notes import client_lines, testbed_text
from pytest_ipperf.transports import TRANSPORTS

NONE = "-"
FORMULA, FIGURE = "  study's formula:", "  study's figure:"
"""Beginnings of row titles: results of the study's formula for our runs, and figures that the study printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTable:
    """A table: `name` is the study's number (3-1), or our own name if the study has none (dns-averages).

    `head` are the lines above, `figures` the rows with all digits, `notes` those of this table alone.
    """

    name: str
    head: tuple[str, ...]
    rows: list[Row]
    figures: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)

    def lines(self, width: int | None = None) -> list[str]:
        """Return the table as lines."""
        return [*self.head, "", *aligned(self.rows, width), *self.notes, ""]


def rank(record: Record) -> tuple[int, str]:
    """Return the sort key of a record: the study's order of protocols, then others."""
    known = list(TABLES)
    return (known.index(record.protocol) if record.protocol in known else len(known), record.protocol)


def name_of(protocol: str, which: int, else_called: str) -> tuple[str, bool]:
    """Return the table's number in the study, or else a name, and whether the study has it."""
    known = protocol in TABLES
    return (TABLES[protocol][which] if known else f"{protocol}-{else_called}"), known


def columns_of(records: Iterable[Record]) -> list[int]:
    """Return the measured numbers of connections."""
    return sorted({record.connections for record in records})


def by_arm(records: Iterable[Record]) -> dict[Arm, dict[int, Record]]:
    """Return the cells by arm and connections; native arms precede tunnelled ones, as in the study."""
    found: dict[Arm, dict[int, Record]] = defaultdict(dict)
    for record in sorted(records, key=lambda each: (each.ipver, TRANSPORTS[each.transport].rank, str(each.test.arm))):
        found[record.test.arm][record.connections] = record
    return found


def row(name: str, found: Mapping[int, T], columns: Sequence[int], text: Callable[[T], str]) -> Row:
    """Return a row of texts by connections, without empty cells, as in the study's tables."""
    return layout.row(name, found, columns, text, NONE)


def by_connections(records: Sequence[Record]) -> str:
    """Return the description of the columns."""
    return "by connections" if records[0].rate_per_s else "by connections at once"


def client_of(record: Record) -> str:
    """Return the client with its arrivals and workers."""
    return client_text(record.client, record.rate_per_s, record.workers)


def conditions(records: Sequence[Record]) -> list[str]:
    """Return the lines below a table's title."""
    first = records[0]
    protocol, metric = application(first.protocol), METRICS[first.metric].metric
    where = f"{testbed_text(records)}, server {first.server}, client {client_of(first)}"
    what = f"{metric.title}, payload {bytes_text(first.payload_bytes)}, timed to {protocol.ends_with!r}"
    return [what, where, *client_lines(records), *reused_lines(records)]


def missing(records: Sequence[Record], *, known: bool) -> list[str]:
    """Return a note on arms and levels of the study's table that were not measured; empty if there are none."""
    if not known:
        return ["This table is not in the study."]
    protocol, arms = records[0].protocol, {records[0].reference.arm, *(record.test.arm for record in records)}
    places = [place for place in MEANS if place[0] == protocol]
    lacking = [arm.title for arm in dict.fromkeys(arm for _, arm, _ in places) if arm not in arms]
    levels = [str(level) for level in dict.fromkeys(level for *_, level in places) if level not in columns_of(records)]
    parts = [f"arm {', '.join(lacking)}"] * bool(lacking) + [f"{', '.join(levels)} connections"] * bool(levels)
    return [f"Of the study's table not measured: {'; '.join(parts)}."] if parts else []


class DoubtMarks:
    """Asterisks on printed figures that contradict others, with the reasons in `doubts`."""

    def __init__(self, table: str) -> None:
        self.doubts: list[str] = []
        self._table = table

    def row(self, what: str, arm: Arm, columns: Sequence[int], texts: Mapping[int, str], protocol: str = "") -> Row:
        """Return a row of printed figures; `protocol` is given if the table has several."""
        table = f"{self._table} {protocol}".rstrip()
        cells = [self._marked((table, arm, count, what), texts[count]) if count in texts else NONE for count in columns]
        return f"{FIGURE} {what}", cells

    def _marked(self, place: tuple[str, Arm, int, str], text: str) -> str:
        doubt = DOUBTS.get(place)
        if doubt is None:
            return text
        self.doubts.append(f"* {doubt}")
        return f"{text}*"


def nothing_failed(records: Iterable[Record]) -> bool:
    """Return whether no connection failed, so that the means of completed connections equal those of all."""
    return not any(record.test.failed or record.reference.failed for record in records)


def printed_increase(record: Record) -> PrintedIncrease | None:
    """Return the figures that the study printed for a cell, if it has the same reference."""
    cell = (record.protocol, record.test.arm, record.connections)
    return INCREASES.get(cell) if record.reference.arm == REFERENCE else None


def formula(record: Record) -> StudyIncrease | None:
    """Return the study's comparison of the two arms; None for too few runs, or runs without spread."""
    try:
        return study_increase(record.reference.completed_values, record.test.completed_values)
    except InvalidError:  # of fewer than two runs with a completed connection, or none that differ
        return None


def signed(milliseconds: float) -> str:
    """Return a difference as text."""
    return f"{milliseconds:+.{2 if abs(milliseconds) < 100 else 1}f}"


def interval_ms(name: str, interval: Interval | None) -> dict[str, float | None]:
    """Return the columns of a formula's interval in milliseconds, with all digits; `name` is that of the estimate."""
    if interval is None:
        return dict.fromkeys((name, "formula_low_ms", "formula_high_ms", "formula_covers"))
    return {
        name: 1000 * interval.estimate,
        "formula_low_ms": 1000 * interval.low,
        "formula_high_ms": 1000 * interval.high,
        "formula_covers": interval.confidence,
    }


def place(table: str, records: Sequence[Record], arm: Arm, connections: int) -> dict[str, Any]:
    """Return the columns that identify a row of figures."""
    first = records[0]
    origin = next((each.taken_from for each in records if each.connections == connections), "")
    return {
        "table": table, "testbed": first.testbed, "rate_bit_s": first.rate_bit_s or None,
        "backend": next((each.backend for each in records if each.test.arm == arm), ""),
        "protocol": first.protocol, "server": first.server,
        "client": first.client, "rate_per_s": first.rate_per_s, "workers": first.workers,
        "payload_bytes": first.payload_bytes, "arm": str(arm), "connections": connections, "taken_from": origin,
    }  # fmt: skip


def counts(side: ArmSummary) -> dict[str, Any]:
    """Return the columns of an arm's connections, with failures by phase and kind."""
    return {
        "attempted": side.attempted,
        "completed": side.completed,
        "failed": "; ".join(f"{kind}: {count}" for kind, count in side.failed.items()),
    }
