"""The command `list`: list the sessions, the newest last."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Mapping
from dataclasses import replace

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import screen_width, write_lines
from pytest_ipperf.cli.records_folder import records_argument
from pytest_ipperf.cli.sessions import records
from pytest_ipperf.core.nightly.report import GateStatus
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.report.tables.layout import aligned
from pytest_ipperf.store import SessionEntry

_HEAD = ("session", ["began (UTC)", "lasted", "design", "saved as", "cells", "troubles", "ended", "night"])


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--saved", default="", metavar="NAME", help="only the sessions that were saved under that name")
    parser.add_argument("-n", dest="most", type=int, default=0, metavar="N", help="only the last N of them")
    records_argument(parser)


def _run(args: argparse.Namespace) -> int:
    if args.most < 0:
        raise UsageError(f"-n {args.most} is not a number of zero (all) or more")
    with records(args.records) as found:
        entries = found.archive.sessions(args.saved)[-args.most :]
        if not entries:
            of = f" saved as {args.saved!r}" if args.saved else ""
            raise UsageError(f"there is no session{of} in {found.root / 'runs'} yet")
        write_lines(aligned([_HEAD, *map(_row, entries)], screen_width()))
        last = replace(entries[-1].completeness, resume=found.archive.resume_of(entries[-1]))
        write_lines([f"session {entries[-1].name}: {last.banner}"] * (not last.is_whole))
    return 0


def _row(entry: SessionEntry) -> tuple[str, list[str]]:
    began = dt.datetime.fromtimestamp(entry.began_at, dt.UTC)
    return entry.name, [
        f"{began:%Y-%m-%d %H:%M}",
        "" if entry.seconds is None else seconds_text(entry.seconds),
        entry.design,
        entry.saved,
        _cells(entry.verdicts),
        str(entry.troubles or ""),
        _end(entry),
        "" if entry.gate_status is None else GateStatus(entry.gate_status).name.lower().replace("_", " "),
    ]


def _cells(verdicts: Mapping[str, int]) -> str:
    """Return the counts of verdicts, the worst first: `1 exceeds, 118 within`."""
    ranking = ("exceeds", "invalid", "inconclusive", "within", "unjudged")
    known = sorted(
        verdicts, key=lambda verdict: (ranking.index(verdict) if verdict in ranking else len(ranking), verdict)
    )
    return ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in known)


def _end(entry: SessionEntry) -> str:
    if entry.trouble:
        return "unreadable"
    if entry.completeness.is_whole:
        return f"status {entry.status}" if entry.tells_end else "unknown"
    return f"{entry.completeness.state.value}, {entry.completeness.counts}"


command = Command(
    help="list the sessions, with their verdicts",
    description=(
        "Lists the sessions, the newest last: their cells by verdict, items without an answer (troubles), pytest's "
        "exit status, and the gate status of a night if the session was its screening."
    ),
    arguments=_arguments,
    run=_run,
)
