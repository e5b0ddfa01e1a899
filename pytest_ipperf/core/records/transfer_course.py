"""Course of an arm's file transfers over the time of a measurement, as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pytest_ipperf.core.measurement.run import Run

SECOND_COLUMNS = ("at_s", "goodput_bit_s", "interface_bit_s")
"""Columns of a second: its end since the run began, and the mean rates in it.

A minute has the same, with its middle since the arm's first run began.
"""
_RESOURCES = (
    "agent_bytes", "agent_descriptors", "server_bytes", "server_descriptors", "server_agent_bytes",
    "server_agent_descriptors",
)  # fmt: skip
RUN_COLUMNS = (
    "at_s", "goodput_bit_s", "interface_bit_s", "interface_max_bit_s", "transfers", "failures", "longest_gap_s",
    *_RESOURCES,
)  # fmt: skip
"""Columns of a run: its start since the arm's first one, its rates, counts, and the resources at its end."""
_MOST_SECONDS = 300
_MINUTE_S = 60.0
_ROUNDING = 0.1  # a run may take a little longer than its minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCourse:
    """Course of an arm: rows of `SECOND_COLUMNS` for its first run, and of `RUN_COLUMNS` for each of its runs.

    `minutes` are those of all runs, each of which is divided into equal parts of a minute or less. Warm-ups are left
    out.
    """

    seconds: tuple[tuple[float, ...], ...]
    minutes: tuple[tuple[float, ...], ...]
    runs: tuple[tuple[float, ...], ...]

    def column(self, name: str) -> list[float]:
        """Return a column of the runs; empty if a host did not report it."""
        at = RUN_COLUMNS.index(name)
        return [row[at] for row in self.runs] if all(row[at] >= 0 for row in self.runs) else []


def transfer_course(runs: Sequence[Run]) -> TransferCourse | None:
    """Return the course of an arm's counted runs, in their order; None if they are no transfers."""
    if not runs or not all(run.course for run in runs):
        return None
    return TransferCourse(
        seconds=tuple(_rates(runs[0].course))[:_MOST_SECONDS],
        minutes=tuple(row for run in runs for row in _minutes(run, run.began_at - runs[0].began_at)),
        runs=tuple(_row(run, run.began_at - runs[0].began_at) for run in runs),
    )


def course_from_plain(plain: Mapping[str, Any] | None) -> TransferCourse | None:
    """Read a course from a record."""
    return TransferCourse(**{name: tuple(map(tuple, rows)) for name, rows in plain.items()}) if plain else None


def _minutes(run: Run, began_s: float) -> Iterable[tuple[float, ...]]:
    """Yield the minutes of a run; a part has at least one row of the course."""
    course = run.course
    parts = max(1, math.ceil(course[-1][0] / _MINUTE_S - _ROUNDING))
    last = len(course) - 1
    chosen = [course[round(part * last / parts)] for part in range(parts + 1)]
    for (ended_s, *rates), (from_s, *_) in zip(_rates(chosen), chosen, strict=False):
        yield began_s + (from_s + ended_s) / 2, *rates


def _rates(course: Sequence[Sequence[float]]) -> Iterable[tuple[float, ...]]:
    for (began_s, received, octets), (ended_s, received_by, octets_by) in pairwise(course):
        took_s = ended_s - began_s
        yield ended_s, 8 * (received_by - received) / took_s, 8 * (octets_by - octets) / took_s


def _row(run: Run, at_s: float) -> tuple[float, ...]:
    """Return the row of a run; -1 for what no host has reported."""
    facts, seconds = run.facts, run.facts["seconds"]
    return (
        at_s,
        8 * facts["payload_bytes"] / seconds,
        8 * facts["interface_bytes"] / seconds,
        facts["interface_max_bit_s"],
        facts["transfers"],
        float(run.failures),
        facts["longest_gap_s"],
        *(facts.get(name, -1.0) for name in _RESOURCES),
    )
