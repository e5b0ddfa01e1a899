"""The terminal report: tables in the shape of paper 000 (Tables 3-1 and 3-2), with what each figure is.

One table for each testbed, protocol, payload and server: a column for each number of connections, a group of rows
for each arm. Under design `paper` the study's own formulas take the place of ours, and say so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.effect import percent_text
from pytest_ipperf.core.judge import Judgement
from pytest_ipperf.core.planning import slowdown_log
from pytest_ipperf.core.record import ArmSummary, Record
from pytest_ipperf.core.study import PRINTED_CONFIDENCE, study_increase, study_mean_interval
from pytest_ipperf.core.units import bytes_text, milliseconds_text, seconds_text
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS

_PICTURE = 56
_STUDY_INTERVAL = f"  study's {100 * PRINTED_CONFIDENCE:.0f} % interval"
_SHOWN_PHASES = ("dns", "connect", "first_byte")
Row = tuple[str, list[str]]


def tables(records: Iterable[Record]) -> list[str]:
    """All tables and what their figures are, as lines; empty without records."""
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.testbed, record.protocol, record.payload_bytes, record.server, record.design].append(record)
    lines: list[str] = []
    for key in sorted(groups):
        lines += [*_table(groups[key]), ""]
    notes = dict.fromkeys(tuple(_notes(group[0])) for group in groups.values())
    return lines + [line for note in notes for line in (*note, "")]


def _table(records: Sequence[Record]) -> list[str]:
    first = records[0]
    columns = sorted({record.connections for record in records})
    reference = {record.connections: record.reference for record in records}
    arms = sorted({Arm.parse(record.test.arm) for record in records})
    paper = first.design == "paper"
    rows: list[Row] = [("", [f"{count}" for count in columns])]
    rows += _reference_rows(Arm.parse(first.reference.arm), reference, columns, paper=paper)
    for arm in arms:
        found = {record.connections: record for record in records if record.test.arm == str(arm)}
        rows += _study_rows(arm, found, columns) if paper else _arm_rows(arm, found, columns)
    protocol, metric = PROTOCOLS[first.protocol], METRICS[first.metric].metric
    return [
        f"{protocol.title} {metric.title} in milliseconds, by connections at once",
        (
            f"testbed {first.testbed}, server {first.server}, client {first.client}, "
            f"payload {bytes_text(first.payload_bytes)}, timed to {protocol.ends_with!r}"
        ),
        "",
        *_aligned(rows),
    ]


def _reference_rows(arm: Arm, sides: dict[int, ArmSummary], columns: Sequence[int], *, paper: bool) -> list[Row]:
    rows = [(arm.title, [milliseconds_text(sides[count].mean) for count in columns])]
    if paper:
        rows.append((_STUDY_INTERVAL, [_study_interval(sides[count]) for count in columns]))
    return rows + _side_rows({count: sides[count] for count in columns}, columns)


def _arm_rows(arm: Arm, found: dict[int, Record], columns: Sequence[int]) -> list[Row]:
    def row(name: str, text: Callable[[Record], str]) -> Row:
        return name, [text(found[count]) if count in found else "" for count in columns]

    return [
        row(arm.title, lambda record: milliseconds_text(record.test.mean)),
        row("  change", lambda record: "" if record.estimate is None else f"{percent_text(record.estimate)} %"),
        row("  95 % interval", _interval),
        row(
            "  margin", lambda record: "" if record.margin_fraction is None else f"{100 * record.margin_fraction:.3g} %"
        ),
        row("  verdict", lambda record: record.verdict),
        *_side_rows({count: record.test for count, record in found.items()}, columns),
    ]


def _interval(record: Record) -> str:
    if record.low is None or record.high is None:
        return ""
    return f"[{percent_text(record.low)}, {percent_text(record.high)}]"


def _side_rows(sides: Mapping[int, ArmSummary], columns: Sequence[int]) -> list[Row]:
    """Of every arm: the medians of its phases, what completed, and what did not, by kind."""

    def row(name: str, text: Callable[[ArmSummary], str]) -> Row:
        return name, [text(sides[count]) if count in sides else "" for count in columns]

    rows = [
        row("  " + " / ".join(phase.replace("_", " ") for phase in _SHOWN_PHASES), _phases),
        row("  completed", lambda side: f"{side.completed} of {side.attempted}"),
    ]
    kinds = sorted({kind for side in sides.values() for kind in side.failed})
    return rows + [row(f"  failed: {kind}", partial(_failed, kind)) for kind in kinds]


def _failed(kind: str, side: ArmSummary) -> str:
    return str(side.failed.get(kind, 0))


def _phases(side: ArmSummary) -> str:
    return " / ".join(milliseconds_text(side.phases[name]) for name in _SHOWN_PHASES) if side.phases else "-"


def _study_rows(arm: Arm, found: dict[int, Record], columns: Sequence[int]) -> list[Row]:
    rows: list[Row] = [(arm.title, [milliseconds_text(found[count].test.mean) for count in columns if count in found])]
    increases = [study_increase(found[c].reference.values, found[c].test.values) for c in columns if c in found]
    rows.append((_STUDY_INTERVAL, [_study_interval(found[c].test) for c in columns if c in found]))
    rows.append(("  actual increase", [f"{1000 * each.increase.estimate:+.2f}" for each in increases]))
    rows.append(("  percentage increase", [f"{each.percent:+.1f} %" for each in increases]))
    rows.append(("  confidence level", [f"{each.confidence_level} %" for each in increases]))
    return rows + _side_rows({count: record.test for count, record in found.items()}, columns)


def _study_interval(side: ArmSummary) -> str:
    interval = study_mean_interval(side.values)
    return f"{milliseconds_text(interval.low)} - {milliseconds_text(interval.high)}"


def _notes(record: Record) -> list[str]:
    counted = f"{len(record.test.values)} runs for each arm, warm-ups left out"
    timed = [
        f"Timed from the first socket, DNS included; a failed connection counts as {seconds_text(record.deadline_s)}.",
        "dns / connect / first byte: medians over completed connections, each since the connection's start.",
    ]
    if record.design == "paper":
        return [
            f"Means of {counted}. The formulas are those of paper 000: its 95 % intervals of a mean truly",
            "cover 91.8 %, its confidence level is one-sided (50 % says nothing). This design never judges.",
            *timed,
        ]
    verdict = f"Verdict: one-sided {100 * (1 - record.alpha):.4g} % bounds against the margin (design {record.design})."
    return [
        f"First rows: mean of {counted}.",
        f"Change: median log ratio of an epoch's blocks ({record.blocks}), mean over the epochs ({record.epochs}),",
        f"with a two-sided {100 * record.confidence:.0f} % t interval; it can differ from the ratio of the means.",
        verdict if record.judges else f"Design {record.design} never judges.",
        *timed,
    ]


def _aligned(rows: Sequence[Row]) -> list[str]:
    wide = max(len(name) for name, _ in rows)
    columns = max(len(cells) for _, cells in rows)
    widths = [max(len(cells[at]) if at < len(cells) else 0 for _, cells in rows) for at in range(columns)]
    return [
        (name.ljust(wide) + "".join(f"  {text:>{width}}" for text, width in zip(cells, widths, strict=False))).rstrip()
        for name, cells in rows
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
