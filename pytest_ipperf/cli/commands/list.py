"""`list` tells which sessions there are, the newest last."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Mapping
from dataclasses import replace

from pytest_ipperf.cli.commands.base import Order, records_argument, screen_width, write_lines
from pytest_ipperf.cli.sessions import records
from pytest_ipperf.core.nightly.report import Light
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.report.tables.layout import aligned
from pytest_ipperf.store import Entry

_HEAD = ("session", ["began (UTC)", "lasted", "design", "saved as", "cells", "troubles", "ended", "night"])


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--saved", default="", metavar="NAME", help="only the sessions that were saved under that name")
    parser.add_argument("-n", dest="most", type=int, default=0, metavar="N", help="only the last N of them")
    records_argument(parser)


def _run(asked: argparse.Namespace) -> int:
    if asked.most < 0:
        raise UsageError(f"-n {asked.most} is not a number of zero (all) or more")
    with records(asked.records) as found:
        entries = found.archive.sessions(asked.saved)[-asked.most :]
        if not entries:
            of = f" that was saved as {asked.saved!r}" if asked.saved else ""
            raise UsageError(f"there is no session{of} in {found.root / 'runs'} yet")
        write_lines(aligned([_HEAD, *map(_row, entries)], screen_width()))
        last = replace(entries[-1].extent, resume=found.archive.resume_of(entries[-1]))
        write_lines([f"session {entries[-1].name}: {last.banner}"] * (not last.is_whole))
    return 0


def _row(entry: Entry) -> tuple[str, list[str]]:
    began = dt.datetime.fromtimestamp(entry.began_at, dt.UTC)
    return entry.name, [
        f"{began:%Y-%m-%d %H:%M}",
        "" if entry.seconds is None else seconds_text(entry.seconds),
        entry.design,
        entry.saved,
        _cells(entry.verdicts),
        str(entry.troubles or ""),
        _end(entry),
        "" if entry.light is None else Light(entry.light).name.lower().replace("_", " "),
    ]


def _cells(verdicts: Mapping[str, int]) -> str:
    """The worst first: `1 exceeds, 118 within`."""
    order = ("exceeds", "invalid", "inconclusive", "within", "unjudged")
    known = sorted(verdicts, key=lambda verdict: (order.index(verdict) if verdict in order else len(order), verdict))
    return ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in known)


def _end(entry: Entry) -> str:
    if entry.trouble:
        return "unreadable"
    if entry.extent.is_whole:
        return f"status {entry.status}" if entry.tells_end else "unknown"
    return f"{entry.extent.state.value}, {entry.extent.counts}"


order = Order(
    help="tell which sessions there are, with their verdicts",
    description=(
        "Tells which sessions there are, the newest last: their cells by verdict, items without an answer (troubles), "
        "pytest's exit status, and the light of the night of which a session was the screening."
    ),
    arguments=_arguments,
    run=_run,
)
