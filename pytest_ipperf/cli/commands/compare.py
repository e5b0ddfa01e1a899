"""The command `compare`: show what has changed from one session to another."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import write_lines
from pytest_ipperf.cli.records_folder import records_argument
from pytest_ipperf.cli.sessions import SESSION, records
from pytest_ipperf.core.portable.errors import LabError, UsageError
from pytest_ipperf.store import write_atomically

_WORSE, _NOTHING_DECIDED = 1, 10


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("then", metavar="A", help=f"the earlier session: {SESSION}")
    parser.add_argument("now", metavar="B", nargs="?", help="the later one; default last, and A is then one before it")
    parser.add_argument("--margin", default="", help="use this margin for every cell, such as 10%% or 10%%,0.5ms")
    parser.add_argument("--all", dest="everything", action="store_true", help="print a line for each cell")
    parser.add_argument("--page", default="", metavar="FILE", help="write an HTML page of the two sessions too")
    records_argument(parser)


def _run(args: argparse.Namespace) -> int:
    # Imported here, as they import scipy, for which wrong usage and other commands need not wait.
    from pytest_ipperf.core.design.margin import Margin  # noqa: PLC0415
    from pytest_ipperf.core.inference.verdict import Verdict  # noqa: PLC0415
    from pytest_ipperf.core.records.comparison import comparison  # noqa: PLC0415
    from pytest_ipperf.metrics import METRICS  # noqa: PLC0415
    from pytest_ipperf.report.terminal.comparison import lines  # noqa: PLC0415

    try:
        margin = Margin.parse(args.margin) if args.margin else None
    except UsageError as error:
        raise UsageError(f"--margin: {error}") from None
    metrics = {name: METRICS[name].metric for name in METRICS}
    with records(args.records) as found:
        then, now = found.pair(args.then, args.now)
        result = comparison(
            found.history_entries(now),
            found.history_entries(then),
            lambda name: metrics[name] if name in metrics else METRICS[name].metric,
            margin=margin,
        )
        banners = {each.name: found.completeness(each).banner for each in (then, now)}
        write_lines([f"session {name}: {banner}" for name, banner in banners.items() if banner])
        write_lines(lines(result, then.name, now.name, everything=args.everything))
        if args.page:
            from pytest_ipperf.report.page.comparison_page import comparison_page  # noqa: PLC0415

            _write_page(Path(args.page), comparison_page(result, then.name, now.name, banners))
    if result.with_verdict(Verdict.EXCEEDS):
        return _WORSE
    return 0 if result.decided else _NOTHING_DECIDED


def _write_page(file: Path, text: str) -> None:
    try:
        write_atomically(file, text.encode("utf-8", "replace"))
    except OSError as error:
        raise LabError(f"--page: {file} cannot be written ({error.strerror})") from error
    write_lines([f"page: {file}"])


command = Command(
    help="show what has changed from one session to another",
    description=(
        "Shows which cells are worse in session B than in session A by more than their margin, which are better, and "
        "which cannot be compared; the others are counted. The intervals do not include the variation from night to "
        "night, which pytest-ipperf night estimates from many nights."
    ),
    epilog="Exit status: 1 if a cell is worse by more than its margin, 10 if no cell was decided, else 0.",
    arguments=_arguments,
    run=_run,
)
