"""Build the rows of an arm, which all tables share: its phases, completed and failed connections, client load."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.client_load import CLIENT_BOUND, ClientLoad
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.portable.units import milliseconds_text
from pytest_ipperf.core.records.arm_summary import QUANTILES, ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.tables.columns import SHOWN_PHASES
from pytest_ipperf.report.tables.layout import Row, row
from pytest_ipperf.report.tables.network_notes import link_rate_rows
from pytest_ipperf.transports import TRANSPORTS

# Shorter delays of the client are normal on a busy machine, and concern one response in hundreds.
_HELD_UP_S = 0.02
ArmSummaries = Mapping[int, ArmSummary]
"""Summaries of an arm, by the number of connections."""
_QUANTILES = " / ".join(QUANTILES)


def arm_rank(arm: Arm) -> tuple[int, int, bool, str]:
    """Return the sort key of an arm in tables: IPv4 before IPv6, native before tunnelled, then twins, then levels."""
    return arm.ipver, TRANSPORTS[arm.transport].rank, arm.twin, arm.level


def rows_of_arm(sides: ArmSummaries, columns: Sequence[int], *, detail: bool = True) -> list[Row]:
    """Return quantiles, medians of phases, completed and failed connections by kind, link rate and client load.

    Without `detail`, rows that report nothing unusual are left out.
    """
    # For DNS the look-up is the transaction itself, without phases before it.
    shown = [phase for phase in SHOWN_PHASES if any(side.phases.get(phase) for side in sides.values())]
    phases = shown or SHOWN_PHASES
    name = "  " + " / ".join(phase.replace("_", " ") for phase in phases)
    known = {count: side for count, side in sides.items() if side.quantiles}
    rows = [row(f"  {_QUANTILES}", known, columns, _quantiles)] if known else []
    rows.append(row(name, sides, columns, partial(_phases, phases)))
    loads = {count: side.instrument for count, side in sides.items() if side.instrument is not None}
    found = _client_rows(loads, sides, detail=detail)
    client = [(name, [texts.get(count, "") for count in columns]) for name, texts in found]
    rates = {count: side.pace for count, side in sides.items() if side.pace is not None}
    return rows + failure_rows(sides, columns, detail=detail) + link_rate_rows(rates, columns) + client


def failure_rows(sides: ArmSummaries, columns: Sequence[int], *, detail: bool = True) -> list[Row]:
    """Return the row of completed connections, and one for each kind of failure (phase and reason).

    Without `detail`, there is no row if all connections completed.
    """
    if not detail and all(side.completed == side.attempted for side in sides.values()):
        return []
    rows = [row("  completed", sides, columns, lambda side: f"{side.completed} of {side.attempted}")]
    kinds = sorted({kind for side in sides.values() for kind in side.failed})
    return rows + [row(f"  failed: {kind}", sides, columns, partial(_failed, kind)) for kind in kinds]


def reused_lines(records: Iterable[Record]) -> list[str]:
    """Return lines that name the columns measured by an earlier session."""
    found: dict[str, set[int]] = {}
    for record in records:
        if record.taken_from:
            found.setdefault(record.taken_from, set()).add(record.connections)
    return [
        f"reused from session {name}: {', '.join(map(str, sorted(columns)))} connections"
        for name, columns in sorted(found.items())
    ]


def client_notes(records: Iterable[Record]) -> list[str]:
    """Return the note that explains the client share, if it is shown."""
    loads = [side.instrument for each in records for side in (each.test, each.reference)]
    if not any(loads):
        return []
    return [
        "Client share: upper bound on the part of the response time that is spent in the client, by its processor time",
        f"or by its time against a null server. Above {100 * CLIENT_BOUND:.0f} % a figure is client-bound.",
    ]


def quantile_notes(records: Iterable[Record]) -> list[str]:
    """Return the note that explains the row of quantiles, if it is shown."""
    if not any(side.quantiles for each in records for side in (each.test, each.reference)):
        return []
    return [f"{_QUANTILES}: percentiles of all connections of an arm, failed ones being the slowest."]


def independent_values(values: Sequence[float], record: Record) -> list[float]:
    """Return an arm's independent values: the means of its epochs, or those of blocks if there is one epoch.

    Raise InvalidError for less than two values, or if runs are missing, so that the arms' values no longer match.
    """
    if len(values) != record.epochs * record.blocks or len(values) < 2:
        expected = f"{record.epochs} epochs of {record.blocks} blocks"
        raise InvalidError(f"{record.cell}: {len(values)} runs with a value do not make {expected}, or are too few")
    if record.epochs == 1:
        return list(values)
    return [statistics.fmean(values[at : at + record.blocks]) for at in range(0, len(values), record.blocks)]


def _phases(shown: Sequence[str], side: ArmSummary) -> str:
    return " / ".join(milliseconds_text(side.phases[name]) for name in shown) if side.phases else "-"


def _quantiles(side: ArmSummary) -> str:
    values = (side.quantiles.get(name) for name in QUANTILES)
    return " / ".join(milliseconds_text(math.inf if value is None else value) for value in values)


def _failed(kind: str, side: ArmSummary) -> str:
    return str(side.failed.get(kind, 0))


def _client_rows(
    loads: Mapping[int, ClientLoad], sides: ArmSummaries, *, detail: bool
) -> Iterator[tuple[str, dict[int, str]]]:
    """Yield the client share, and further rows for problems of the client only.

    Without `detail`, there is a share only if a client is the bottleneck, and there are no counters of its TCP.
    """
    shown = detail or any(each.client_bound for each in loads.values())
    shares = {count: _share(each) for count, each in loads.items()} if shown else {}
    fewer = {count: str(each.peak) for count, each in loads.items() if each.peak < count}
    held_up = {
        count: f"{milliseconds_text(each.lag_s)} ms" for count, each in loads.items() if _held_up(each, sides[count])
    }
    behind = {
        count: f"{milliseconds_text(each.behind_s)} ms"
        for count, each in loads.items()
        if each.behind_too_far(sides[count].completed_mean)
    }
    for name, found in (
        ("client share", shares),
        ("most at once", fewer),
        ("client held up for", held_up),
        ("opened late by", behind),
    ):
        if found:
            yield f"  {name}", found
    for counter in sorted({counter for each in loads.values() for counter in each.tcp}) if detail else ():
        yield f"  {counter}", {count: str(each.tcp[counter]) for count, each in loads.items() if counter in each.tcp}


def _share(each: ClientLoad) -> str:
    return f"{100 * each.share:.0f} %{' client-bound' if each.client_bound else ''}"


def _held_up(each: ClientLoad, side: ArmSummary) -> bool:
    """Return whether the client's lag is too long, compared with the baseline cost or the response time."""
    return each.lag_s > max(_HELD_UP_S, side.completed_mean if each.floor_s is None else each.floor_s)
