"""Table of cells of which only limits were asked: each arm alone, with the figures that decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import client_text
from pytest_ipperf.core.design.limit import FIGURES, QUANTILES, Limit, measured_text, share_text
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.records.component import Component
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.network_notes import testbed_text

_HEAD: Row = ("", ["measured", "one-sided bounds", "limit", "verdict"])
NOTES = (
    "Limits: a quantile by the share of connections that are slower, or failed, against the share that it allows;",
    "means and throughput by their epochs. One-sided bounds, at the level of the verdict (docs/statistics.md, Limits).",
)


def limit_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table for each protocol, testbed, client, server and design."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        load = (record.client, record.rate_per_s, record.workers)
        groups.setdefault((record.protocol, record.testbed, *load, record.server, record.design), []).append(record)
    return [_table(groups[key]) for key in sorted(groups)]


def limit_figures(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the rows of `limits.csv`, in base units."""
    return [
        {
            "cell": record.cell,
            "arm": str(record.test.arm),
            "limit": each.metric,
            "measured": each.test_value,
            "allowed": each.reference_value,
            "verdict": each.verdict,
            "p_exceeds": "" if each.p_exceeds is None else each.p_exceeds,
            "epochs": each.epochs,
            "attempted": record.test.attempted,
            "completed": record.test.completed,
        }
        for record in records
        for each in record.components
        if each.limit
    ]


def _table(records: Sequence[Record]) -> Table:
    first = records[0]
    client = client_text(first.client, first.rate_per_s, first.workers)
    server = f", server {first.server}, client {client}" if PROTOCOLS[first.protocol].kind.counts_failures else ""
    return Table(
        title=f"{PROTOCOLS[first.protocol].title}: limits of each arm alone",
        about=(f"{testbed_text(records)}{server}, design {first.design}",),
        rows=(_HEAD, *(row for record in records for row in _rows(record))),
    )


def _rows(record: Record) -> Iterator[Row]:
    kind = PROTOCOLS[record.protocol].kind
    levels = [kind.title_of(record.connections), bytes_text(record.payload_bytes), record.levels_text]
    yield f"{record.test.arm.title}, {', '.join(filter(None, levels))}", []
    limits = {limit: each for each in record.components if (limit := Limit.named(each.limit))}
    for limit in sorted(limits, key=lambda each: (FIGURES.index(each.figure), each.value)):
        each = limits[limit]
        yield (
            f"  {limit.figure}",
            [measured_text(limit, each.test_value), _bounds(each, limit), _limit(limit), each.verdict],
        )
    if kind.counts_failures:
        yield "  completed", [f"{record.test.completed} of {record.test.attempted}"]


def _bounds(component: Component, limit: Limit) -> str:
    """Return the bounds that decide as shares, or as values of the figure."""
    bounds = (component.lower_bound, component.upper_bound)
    if None in bounds:
        return ""
    shares = [(bound or 0.0) / 100 for bound in bounds]
    if limit.is_share:
        return " .. ".join(share_text(min(max(0.0, each), 1.0)) for each in shares)
    return " .. ".join(limit.text_of(max(0.0, (1 + each) * limit.value)) for each in shares)


def _limit(limit: Limit) -> str:
    allowed = f" in all but {share_text(limit.allowed)}" if limit.figure in QUANTILES else ""
    return f"{limit.sign} {limit.shown}{allowed}"
