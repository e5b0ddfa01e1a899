"""Find the sweeps of application protocols: by the number of connections, else by payload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import client_text
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.flow.dimensions import Dimension, held_levels
from pytest_ipperf.report.flow.sweeps import Sweep

_PAYLOAD = Dimension("payload", "payload", lambda value: bytes_text(int(value)), str, "bytes")
_AT_ONCE = Dimension("connections", "connections at once", str, str)
_ARRIVING = Dimension("connections", "connections", str, str)


def connection_sweeps(records: Sequence[Record]) -> list[Sweep]:
    """Return the sweeps by connections with at least two levels, and those by payload of the other cells."""
    found = [sweep for sweep in _along(records, _AT_ONCE) if len(sweep.values) > 1]
    covered = {record.cell for sweep in found for record in sweep.records}
    return found + _along([record for record in records if record.cell not in covered], _PAYLOAD)


def _along(records: Iterable[Record], dimension: Dimension) -> list[Sweep]:
    """Return the sweeps along a dimension, of records that share all others."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        other = record.connections if dimension is _PAYLOAD else record.payload_bytes
        load = (record.client, record.rate_per_s, record.workers)
        held = (other, record.levels_text, record.own_reference)
        key = (record.testbed, record.protocol, record.metric, *load, *held, record.server, record.design)
        groups.setdefault(key, []).append(record)
    return [_sweep(groups[key], dimension) for key in sorted(groups)]


def _sweep(records: Sequence[Record], dimension: Dimension) -> Sweep:
    first, payload = records[0], dimension is _PAYLOAD
    held = CONNECTIONS.counted(first.connections) if payload else f"payload {bytes_text(first.payload_bytes)}"
    client = client_text(first.client, first.rate_per_s, first.workers)
    return Sweep(
        dimension=_ARRIVING if first.rate_per_s and not payload else dimension,
        values=tuple(sorted({record.payload_bytes if payload else record.connections for record in records})),
        held=", ".join(filter(None, (f"server {first.server}", f"client {client}", held, held_levels(first)))),
        records=tuple(records),
    )
