"""Delay and loss that a load adds to a probe: the idle path beside the same path under working conditions.

The terms are those of draft-ietf-ippm-responsiveness.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_ipperf.core.design.cell import arm_level_text
from pytest_ipperf.core.measurement.probe_delay import DELAYS, LOSS, ROUND_TRIP
from pytest_ipperf.core.portable.scaling import number
from pytest_ipperf.core.portable.traffic.load import GENERATORS, IDLE, LOAD, LOAD_ROW
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import t_interval
from pytest_ipperf.protocols import flow
from pytest_ipperf.report.tables.arm_rows import arm_rank
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.network_notes import testbed_text

NOTES = (
    "Working conditions: load-generating connections use the path while a probe on its own connection is measured",
    "(draft-ietf-ippm-responsiveness). Added: loaded less idle within a block, median (loss: mean) of the blocks of an",
    "epoch, mean over the epochs, with a two-sided 95 % t interval over the epochs. Idle and loaded: means over the",
    "runs of their percentiles, of which a lost packet is infinitely late; `lost`: too many were.",
)
"""Lines that explain the figures of the tables."""
_IDLE = arm_level_text(LOAD.name, IDLE)
_CONFIDENCE = 0.95
_LEAST_EPOCHS = 3  # of two, an interval is a dozen times as wide as their spread
_NAMES = {"probe_p50_s": "median", "probe_p95_s": "p95", "probe_p99_s": "p99"}
_LOST, _UNKNOWN = "lost", "-"


def tables(records: Iterable[Record]) -> list[Table]:
    """Return a table for each workload of which the idle path was compared with one under load."""
    groups: dict[tuple[str, str], dict[str, Record]] = defaultdict(dict)
    for record in records:
        loaded = record.compared and record.reference.arm.level == _IDLE and record.test.arm.level != _IDLE
        if loaded and record.reference.probe and record.test.probe:
            groups[record.workload, record.design][str(record.test.arm)] = record
    return [_table(list(found.values())) for _, found in sorted(groups.items())]


def _table(records: Sequence[Record]) -> Table:
    first = records[0]
    protocol, count = flow(first.protocol), first.levels.get(GENERATORS.name, 1)
    quantity = "round-trip time" if ROUND_TRIP in protocol.columns else "one-way delay"
    made = "" if count == 1 else f", {count} {GENERATORS.title}"
    rows: list[Row] = [("", ["idle", "loaded", "added", "95 % interval"])]
    for record in sorted(records, key=lambda each: arm_rank(each.test.arm)):
        rows += _rows(record, quantity)
    return Table(
        title=f"{protocol.title} under working conditions: added delay in ms, added loss",
        about=(testbed_text(records), f"workload {first.workload}, design {first.design}{made}"),
        rows=tuple(rows),
    )


def _rows(record: Record, quantity: str) -> Iterator[Row]:
    yield record.test.arm.title, []
    for name in DELAYS:
        yield f"  {quantity}, {_NAMES[name]}", _figures(record, name, 1e3, "ms", statistics.median)
    yield "  loss", _figures(record, LOSS, 100, "pp", statistics.fmean)
    if LOAD_ROW.needs <= record.test.figures.keys():
        yield f"  {LOAD_ROW.title}", ["", LOAD_ROW.text(record.test.figures), "", ""]


def _figures(
    record: Record, name: str, size: float, unit: str, locate: Callable[[Sequence[float]], float]
) -> list[str]:
    """Return idle, loaded and added with its interval; `size` makes base units the shown ones."""
    idle, loaded = (_values(each, name) for each in (record.reference, record.test))
    means = [_UNKNOWN if not each else _LOST if None in each else number(size * _mean(each)) for each in (idle, loaded)]
    pairs = list(zip(loaded, idle, strict=False))
    if not pairs or len(idle) != len(loaded) or None in (*idle, *loaded):
        return [*means, _UNKNOWN, _UNKNOWN]
    added = [size * (one - other) for one, other in pairs if one is not None and other is not None]
    blocks = record.blocks if len(added) == record.epochs * record.blocks else 0
    if not blocks:
        return [*means, _UNKNOWN, _UNKNOWN]
    epochs = [locate(added[at : at + blocks]) for at in range(0, len(added), blocks)]
    change = f"{_signed(statistics.fmean(epochs))} {unit}"
    if len(epochs) < _LEAST_EPOCHS or not record.judges:
        return [*means, change, _UNKNOWN]
    found = t_interval(epochs, _CONFIDENCE)
    return [*means, change, f"[{_signed(found.low)}, {_signed(found.high)}]"]


def _values(side: ArmSummary, name: str) -> tuple[float | None, ...]:
    return side.probe.get(name, ())


def _mean(values: Iterable[float | None]) -> float:
    return statistics.fmean(value for value in values if value is not None)


def _signed(value: float) -> str:
    text = number(value)
    return f"+{text}" if value > 0 else text
