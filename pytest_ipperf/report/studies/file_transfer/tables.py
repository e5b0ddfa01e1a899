"""Tables 2 and 3 of the file-transfer study (paper 003), from our own records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.units import bytes_text, seconds_text, short_rate_text
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.file_transfer.printed import TABLE_2, TABLE_3, Printed
from pytest_ipperf.report.tables.arm_rows import arm_rank
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.network_notes import testbed_text

_MEGA = 1e6
_MEBI = 2**20
_JITTER, _LOSS, _RATE = "jitter", "loss", "rate"
_FIVE_MINUTES_S = 300.0

Group = dict[tuple[str, str, int], list[Record]]


def transfers(records: Iterable[Record]) -> Group:
    """Return the records of file transfers by testbed, design and number of sessions."""
    found: Group = defaultdict(list)
    for record in records:
        if record.test.course is not None:
            found[record.testbed, record.design, record.connections].append(record)
    return found


def sides_of(records: Iterable[Record]) -> dict[Arm, dict[int, ArmSummary]]:
    """Return the arms by size of the file, in the order of tables."""
    found: dict[Arm, dict[int, ArmSummary]] = defaultdict(dict)
    for record in records:
        for side in record.sides:
            found[side.arm][record.payload_bytes] = side
    return {arm: found[arm] for arm in sorted(found, key=arm_rank)}


def table_2(records: Sequence[Record]) -> Table:
    """Return the table of throughput by size, from the interface counters; the records are of one group."""
    sides, sizes = sides_of(records), sorted({record.payload_bytes for record in records})
    run_s = records[0].run_s
    longest = "most in 5 min" if run_s == _FIVE_MINUTES_S else "most in a run"
    rows: list[Row] = [("Mbit/s at the interface", [bytes_text(size) for size in sizes])]
    for arm, own in sides.items():
        rows.append((arm.title, [_rate(own, size, "interface_bit_s", _mean) for size in sizes]))
        rows.append((f"  {longest}", [_rate(own, size, "interface_bit_s", max) for size in sizes]))
        rows.append(("  most in 1 s", [_rate(own, size, "interface_max_bit_s", max) for size in sizes]))
        rows.append(("  goodput", [_rate(own, size, "goodput_bit_s", _mean) for size in sizes]))
        if arm.transport == "native" and not arm.twin:
            printed = [TABLE_2.get((size // _MEBI, arm.ipver)) for size in sizes]
            rows.append(("  study: average / maximum", [_pair(each) for each in printed]))
    return Table(
        title="Paper 003, Table 2: throughput by size of the file",
        about=(testbed_text(records), f"design {records[0].design}, runs of {seconds_text(run_s)}"),
        rows=tuple(row for row in rows if row is rows[0] or any(row[1])),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _rate(own: Mapping[int, ArmSummary], size: int, column: str, of: Callable[[Sequence[float]], float]) -> str:
    course = own[size].course if size in own else None
    return f"{of(course.column(column)) / _MEGA:.2f}" if course else ""


def _pair(printed: Printed | None) -> str:
    return f"{printed.first} / {printed.second}" if printed else ""


def table_3(records: Sequence[Record]) -> Iterator[Table]:
    """Yield a table of jitter and loss by rate for each testbed and design with datagrams of both metrics."""
    groups: dict[tuple[str, str, int], list[Record]] = defaultdict(list)
    for record in records:
        if record.metric in (_JITTER, _LOSS) and record.compared and _RATE in record.levels:
            groups[record.testbed, record.design, record.payload_bytes].append(record)
    for _, found in sorted(groups.items()):
        if {record.metric for record in found} == {_JITTER, _LOSS}:
            yield _table_3(found)


def _table_3(records: Sequence[Record]) -> Table:
    means: dict[Arm, dict[tuple[str, float], float]] = defaultdict(dict)
    for record in records:
        for side in record.sides:
            means[side.arm][record.metric, float(record.levels[_RATE])] = side.mean
    rates = sorted({rate for own in means.values() for _, rate in own})
    rows: list[Row] = [("jitter in ms, loss in %", [short_rate_text(rate) for rate in rates])]
    for arm in sorted(means, key=arm_rank):
        own = means[arm]
        rows.append((f"{arm.title} jitter", [_scaled(own.get((_JITTER, rate)), 1e3) for rate in rates]))
        rows.append(("  loss", [_scaled(own.get((_LOSS, rate)), 100) for rate in rates]))
        if arm.transport == "native" and not arm.twin:
            printed = [TABLE_3.get((round(rate / _MEGA), arm.ipver)) for rate in rates]
            rows.append(("  study: jitter / loss", [_pair(each) for each in printed]))
    return Table(
        title="Paper 003, Table 3: jitter and loss by offered rate",
        about=(
            testbed_text(records),
            f"datagrams of {bytes_text(records[0].payload_bytes)}",
            f"design {records[0].design}, runs of {seconds_text(records[0].run_s)}",
        ),
        rows=tuple(row for row in rows if row is rows[0] or any(row[1])),
    )


def _scaled(value: float | None, scale: float) -> str:
    return "" if value is None else f"{scale * value:.3f}"
