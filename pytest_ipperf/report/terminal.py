"""The terminal report: tables in the shape of paper 000 (Tables 3-1 and 3-2), with what each figure is.

One table for each testbed, protocol, client, payload and server: a column for each number of connections, a group of
rows for each arm. Under design `paper` the study's own formulas take the place of ours, and say so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.effect import percent_text
from pytest_ipperf.core.instrument import CLIENT_BOUND, Instrument
from pytest_ipperf.core.judge import Judgement
from pytest_ipperf.core.planning import slowdown_log
from pytest_ipperf.core.record import ArmSummary, Record
from pytest_ipperf.core.study import PRINTED_CONFIDENCE, study_increase, study_mean_interval
from pytest_ipperf.core.units import bytes_text, milliseconds_text, seconds_text
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS

_PICTURE = 56
# A shorter absence from the processor is everyday life of a busy machine, and one response in hundreds.
_HELD_UP_S = 0.02
_STUDY_INTERVAL = f"  study's {100 * PRINTED_CONFIDENCE:.0f} % interval"
_SHOWN_PHASES = ("dns", "connect", "first_byte")
Row = tuple[str, list[str]]


def tables(records: Iterable[Record]) -> list[str]:
    """All tables and what their figures are, as lines; empty without records."""
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        workload = (record.testbed, record.protocol, record.client, record.payload_bytes)
        groups[*workload, record.server, record.design].append(record)
    lines: list[str] = []
    for key in sorted(groups):
        lines += [*_table(groups[key]), ""]
    notes = dict.fromkeys(tuple(_notes(group)) for group in groups.values())
    return lines + [line for note in notes for line in (*note, "")]


def _table(records: Sequence[Record]) -> list[str]:
    first = records[0]
    columns = sorted({record.connections for record in records})
    # The reference was measured for as long as any arm beside it.
    longest = {record.connections: record for record in sorted(records, key=lambda record: record.epochs)}
    arms = sorted({Arm.parse(record.test.arm) for record in records})
    paper, uneven = first.design == "paper", _uneven(records)
    rows: list[Row] = [("", [f"{count}" for count in columns])]
    rows += _reference_rows(Arm.parse(first.reference.arm), longest, columns, paper=paper, uneven=uneven)
    for arm in arms:
        found = {record.connections: record for record in records if record.test.arm == str(arm)}
        rows += _study_rows(arm, found, columns) if paper else _arm_rows(arm, found, columns, uneven=uneven)
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


def _uneven(records: Iterable[Record]) -> bool:
    """Whether cells were decided after different numbers of epochs, so that a reader has to know which."""
    return len({record.epochs for record in records}) > 1


def _reference_rows(
    arm: Arm, found: dict[int, Record], columns: Sequence[int], *, paper: bool, uneven: bool
) -> list[Row]:
    sides = {count: found[count].reference for count in columns}
    rows = [(arm.title, [milliseconds_text(sides[count].mean) for count in columns])]
    if paper:
        rows.append((_STUDY_INTERVAL, [_study_interval(sides[count]) for count in columns]))
    if uneven:
        rows.append(("  epochs", [str(found[count].epochs) for count in columns]))
    return rows + _side_rows(sides, columns)


def _arm_rows(arm: Arm, found: dict[int, Record], columns: Sequence[int], *, uneven: bool) -> list[Row]:
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
        *([row("  epochs", lambda record: str(record.epochs))] if uneven else []),
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
    rows += [row(f"  failed: {kind}", partial(_failed, kind)) for kind in kinds]
    told = {count: side.instrument for count, side in sides.items() if side.instrument is not None}
    return rows + [(name, [told_of.get(count, "") for count in columns]) for name, told_of in _client_rows(told, sides)]


def _client_rows(
    told: Mapping[int, Instrument], sides: Mapping[int, ArmSummary]
) -> Iterator[tuple[str, dict[int, str]]]:
    """The client's share always, the rest where it is not as it should be."""
    shares = {count: _share(each) for count, each in told.items()}
    fewer = {count: str(each.peak) for count, each in told.items() if each.peak < count}
    held_up = {
        count: f"{milliseconds_text(each.lag_s)} ms" for count, each in told.items() if _held_up(each, sides[count])
    }
    for name, found in (("client share", shares), ("most at once", fewer), ("client held up for", held_up)):
        if found:
            yield f"  {name}", found
    for counter in sorted({counter for each in told.values() for counter in each.tcp}):
        yield f"  {counter}", {count: str(each.tcp[counter]) for count, each in told.items() if counter in each.tcp}


def _share(each: Instrument) -> str:
    return f"{100 * each.share:.0f} %{' client-bound' if each.client_bound else ''}"


def _held_up(each: Instrument, side: ArmSummary) -> bool:
    """Against the floor, where it is known: what holds the client up makes the response time longer too."""
    return each.lag_s > max(_HELD_UP_S, side.mean if each.floor_s is None else each.floor_s)


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


def _notes(records: Sequence[Record]) -> list[str]:
    record, uneven = records[0], _uneven(records)
    counted = f"{len(record.test.values)} runs for each arm, warm-ups left out"
    if uneven:
        counted = f"an arm's runs, {record.blocks} in each epoch, warm-ups left out"
    timed = [
        f"Timed from the first socket, DNS included; a failed connection counts as {seconds_text(record.deadline_s)}.",
        "dns / connect / first byte: medians over completed connections, each since the connection's start.",
        *_client_notes(records),
    ]
    if record.design == "paper":
        return [
            f"Means of {counted}. The formulas are those of paper 000: its 95 % intervals of a mean truly",
            "cover 91.8 %, its confidence level is one-sided (50 % says nothing). This design never judges.",
            *timed,
        ]
    epochs = "as many as the row tells" if uneven else f"{record.epochs}"
    return [
        f"First rows: mean of {counted}.",
        f"Change: median log ratio of an epoch's blocks ({record.blocks}), mean over the epochs ({epochs}),",
        f"with a two-sided {100 * record.confidence:.0f} % t interval; it can differ from the ratio of the means.",
        *_verdict_notes(record),
        *timed,
    ]


def _client_notes(records: Iterable[Record]) -> list[str]:
    told = [side.instrument for each in records for side in (each.test, each.reference)]
    if not any(told):
        return []
    return [
        "Client share: no more than that of the response time is the client's own, as it was no busier, or takes no",
        f"longer against a server that does nothing. Above {100 * CLIENT_BOUND:.0f} % a figure is client-bound.",
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
