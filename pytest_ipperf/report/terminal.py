"""The terminal report: tables in the shape of paper 000 (Tables 3-1 and 3-2), with what each figure is.

One table for each testbed, protocol, client, payload and server: a column for each number of connections, a group of
rows for each arm. Under design `paper` they are the study's own tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pytest_ipperf.core.cell import Arm, client_text
from pytest_ipperf.core.effect import percent_text
from pytest_ipperf.core.judge import Judgement
from pytest_ipperf.core.planning import slowdown_log
from pytest_ipperf.core.record import Record
from pytest_ipperf.core.units import bytes_text, milliseconds_text, seconds_text
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report import layout
from pytest_ipperf.report.layout import Row, aligned
from pytest_ipperf.report.network import pace_notes, testbed_text
from pytest_ipperf.report.paper import study_notes, study_tables
from pytest_ipperf.report.sides import client_notes, side_rows, taken_lines
from pytest_ipperf.transports import TRANSPORTS

_PICTURE = 56


def tables(records: Iterable[Record], width: int | None = None) -> list[str]:
    """All tables and what their figures are, as lines of `width` characters at most; empty without records."""
    records = list(records)
    if records and records[0].design == "paper":
        return [line for table in study_tables(records) for line in table.lines(width)] + [*study_notes(records), ""]
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        workload = (record.testbed, record.protocol, record.client, record.payload_bytes)
        load = (record.rate_per_s, record.workers)
        groups[*workload, *load, record.server, record.design].append(record)
    lines: list[str] = []
    for key in sorted(groups):
        lines += [*_table(groups[key], width), ""]
    notes = dict.fromkeys(tuple(_notes(group)) for group in groups.values())
    return lines + [line for note in notes for line in (*note, "")]


def _table(records: Sequence[Record], width: int | None) -> list[str]:
    first = records[0]
    columns = sorted({record.connections for record in records})
    # The reference was measured for as long as any arm beside it.
    longest = {record.connections: record for record in sorted(records, key=lambda record: record.epochs)}
    arms = sorted({Arm.parse(record.test.arm) for record in records}, key=_rank)
    uneven = _uneven(records)
    rows: list[Row] = [("", [f"{count}" for count in columns])]
    rows += _reference_rows(Arm.parse(first.reference.arm), longest, columns, uneven=uneven)
    for arm in arms:
        found = {record.connections: record for record in records if record.test.arm == str(arm)}
        rows += _arm_rows(arm, found, columns, uneven=uneven)
    protocol, metric = PROTOCOLS[first.protocol], METRICS[first.metric].metric
    client = client_text(first.client, first.rate_per_s, first.workers)
    return [
        f"{protocol.title} {metric.title} in milliseconds, by connections{'' if first.rate_per_s else ' at once'}",
        (
            f"{testbed_text(records)}, server {first.server}, client {client}, "
            f"payload {bytes_text(first.payload_bytes)}, timed to {protocol.ends_with!r}"
        ),
        *taken_lines(records),
        "",
        *aligned(rows, width),
    ]


def _rank(arm: Arm) -> tuple[int, int, bool]:
    return arm.ipver, TRANSPORTS[arm.transport].rank, arm.twin


def _uneven(records: Iterable[Record]) -> bool:
    """Whether cells were decided after different numbers of epochs, so that a reader has to know which."""
    return len({record.epochs for record in records}) > 1


def _reference_rows(arm: Arm, found: dict[int, Record], columns: Sequence[int], *, uneven: bool) -> list[Row]:
    sides = {count: found[count].reference for count in columns}
    rows = [(arm.title, [milliseconds_text(sides[count].mean) for count in columns])]
    if uneven:
        rows.append(("  epochs", [str(found[count].epochs) for count in columns]))
    return rows + side_rows(sides, columns)


def _arm_rows(arm: Arm, found: dict[int, Record], columns: Sequence[int], *, uneven: bool) -> list[Row]:
    def row(name: str, text: Callable[[Record], str]) -> Row:
        return layout.row(name, found, columns, text)

    return [
        row(arm.title, lambda record: milliseconds_text(record.test.mean)),
        row("  change", lambda record: "" if record.estimate is None else f"{percent_text(record.estimate)} %"),
        row("  95 % interval", _interval),
        row(
            "  margin", lambda record: "" if record.margin_fraction is None else f"{100 * record.margin_fraction:.3g} %"
        ),
        row("  verdict", lambda record: record.verdict),
        *([row("  epochs", lambda record: str(record.epochs))] if uneven else []),
        *side_rows({count: record.test for count, record in found.items()}, columns),
    ]


def _interval(record: Record) -> str:
    if record.low is None or record.high is None:
        return ""
    return f"[{percent_text(record.low)}, {percent_text(record.high)}]"


def _notes(records: Sequence[Record]) -> list[str]:
    record, uneven = records[0], _uneven(records)
    counted = f"{len(record.test.values)} runs for each arm, warm-ups left out"
    if uneven:
        counted = f"an arm's runs, {record.blocks} in each epoch, warm-ups left out"
    timed = [
        f"Timed from the first socket, DNS included; a failed connection counts as {seconds_text(record.deadline_s)}.",
        "dns / connect / first byte: medians over completed connections, each since the connection's start.",
        *client_notes(records),
        *pace_notes(records),
    ]
    epochs = "as many as the row tells" if uneven else f"{record.epochs}"
    return [
        f"First rows: mean of {counted}.",
        f"Change: median log ratio of an epoch's blocks ({record.blocks}), mean over the epochs ({epochs}),",
        f"with a two-sided {100 * record.confidence:.0f} % t interval; it can differ from the ratio of the means.",
        *_verdict_notes(record),
        *timed,
    ]


def _verdict_notes(record: Record) -> list[str]:
    if not record.judges:
        return [f"Design {record.design} never judges."]
    rule = f"Verdict: one-sided {100 * (1 - record.alpha):.4g} % bounds against the margin (design {record.design})"
    if record.looks == 1:
        return [f"{rule}."]
    each = record.epochs // record.look
    return [
        f"{rule},",
        f"taken after every {each} epochs, {record.looks} times at most; what is decided is measured no further.",
    ]


def interval_picture(judgement: Judgement) -> list[str]:
    """The two-sided interval on a line with zero and the margin; `o` is the estimate, `|` the margin."""
    effect = judgement.effect
    if effect is None:
        return []
    log, allowed = effect.log, judgement.margin_fraction
    limit = slowdown_log(allowed, effect.direction) * (1 if effect.direction == "lower_is_better" else -1)
    low, high = min(log.low, 0.0, limit), max(log.high, 0.0, limit)
    span = (high - low) or 1.0

    def column(value: float) -> int:
        return round((value - low) / span * (_PICTURE - 1))

    bar = [" "] * _PICTURE
    for at in range(column(log.low), column(log.high) + 1):
        bar[at] = "-"
    bar[column(log.low)], bar[column(log.high)], bar[column(log.estimate)] = "[", "]", "o"
    scale = [" "] * _PICTURE
    scale[column(0.0)], scale[column(limit)] = "0", "|"
    change = effect.percent
    return [
        "".join(bar).rstrip()
        + f"   {percent_text(change.estimate)} % [{percent_text(change.low)}, {percent_text(change.high)}]",
        "".join(scale).rstrip() + f"   0 = no change, | = margin {100 * allowed:.3g} %",
    ]
