"""The command `ministat`: compare the numbers in files as the program ministat does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import screen_width, write_lines
from pytest_ipperf.core.portable.errors import UsageError

if TYPE_CHECKING:
    from pytest_ipperf.report.studies.ministat import DataSet


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="a file of numbers; - and no file are standard input")
    parser.add_argument("-A", "-q", dest="plots", action="store_false", help="do not plot")
    parser.add_argument("-n", dest="compares", action="store_false", help="neither plot nor compare")
    parser.add_argument("-s", dest="separate", action="store_true", help="plot a bar for each file")
    parser.add_argument("-C", dest="column", type=int, default=1, metavar="COLUMN", help="column of a line; default 1")
    parser.add_argument(
        "-c", dest="confidence", type=float, default=95.0, metavar="CONFIDENCE",
        help="confidence in percent: 80, 90, 95 (default), 98, 99 or 99.5, of which the last is 99.8 in truth",
    )  # fmt: skip
    parser.add_argument(
        "-d", dest="delimiters", default=" \t", metavar="DELIMITERS",
        help="characters that separate columns; default space and tab",
    )  # fmt: skip
    parser.add_argument(
        "-w", dest="width", type=int, default=None, metavar="WIDTH",
        help="columns of the plot; default that of the terminal, or 74",
    )  # fmt: skip


def _run(args: argparse.Namespace) -> int:
    from pytest_ipperf.report.studies.ministat import MOST_SETS, WIDTH, ministat_lines  # noqa: PLC0415 - imports scipy

    if args.column < 1:
        raise UsageError(f"-C {args.column} is not a column; the first one is 1")
    files = args.files or ["-"]
    if len(files) > MOST_SETS:
        raise UsageError(f"ministat compares up to {MOST_SETS} files, not {len(files)}")
    sets = [_data_set(name, args) for name in files]
    screen = screen_width()
    width = args.width if args.width is not None else screen - 2 if screen else WIDTH
    shown = {"confidence": args.confidence, "width": width, "separate": args.separate}
    write_lines(ministat_lines(sets, **shown, plots=args.plots, compares=args.compares))
    return 0


def _data_set(name: str, args: argparse.Namespace) -> DataSet:
    from pytest_ipperf.report.studies.ministat import read_data_set  # noqa: PLC0415 - imports scipy

    if name == "-":
        name, lines = "<stdin>", sys.stdin.readlines()
    else:
        try:
            lines = Path(name).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        except OSError as error:
            raise UsageError(f"file {name} cannot be read: {error.strerror}") from None
    return read_data_set(name, lines, column=args.column, delimiters=args.delimiters)


command = Command(
    help="compare the numbers in files as ministat does",
    description=(
        "Compares the numbers in files with those in the first one, with the options and the output of FreeBSD's "
        "ministat as Debian has it. -q is -A, as in other versions. Numbers of one file count as independent of each "
        "other, which runs of one session are not; the verdicts of this project do not use it."
    ),
    epilog="Exit status: 0, or 4 if a file or an option is wrong.",
    arguments=_arguments,
    run=_run,
)
