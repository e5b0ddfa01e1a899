"""Define what the file of a command offers, and what commands share: finding the records, writing lines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pytest_ipperf.core.portable.errors import UsageError

FOLDER = ".ipperf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand: `arguments` declares its arguments, `run` executes it and returns the exit status.

    With `forwards_unknown` the arguments that it does not know are in `rest`, for pytest.
    """

    help: str
    description: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    epilog: str = ""
    forwards_unknown: bool = False


def records_argument(parser: argparse.ArgumentParser) -> None:
    """`--ipperf-records`, as pytest has it."""
    parser.add_argument(
        "--ipperf-records", "--records", dest="records", default="", metavar="FOLDER",
        help=f"where the records are; default {FOLDER} here or in the nearest directory above that has one",
    )  # fmt: skip


def records_root(folder: str) -> Path:
    """The folder of records that is meant; UsageError where there is none."""
    if folder:
        if not Path(folder).is_dir():
            raise UsageError(f"--ipperf-records: {folder!r} is no folder")
        return Path(folder)
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / FOLDER).is_dir():
            return place / FOLDER
    raise UsageError(f"there is no {FOLDER} in {here} or above; measure first, or name a folder by --ipperf-records")


def write_lines(lines: Iterable[str]) -> None:
    """Write to standard output; a reader that closes the pipe does not change how the command ends."""
    try:
        for line in lines:
            print(line)  # noqa: T201 - that is what it is for
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_output()


def warn(sentence: str) -> None:
    """Write a line to standard error; that nobody can read it changes no status."""
    try:
        print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - beside the answer
    except OSError:
        give_up_output(sys.stderr)


def give_up_output(stream: TextIO | None = None) -> None:
    """Write no more to a stream, by default standard output; the interpreter would try it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def screen_width() -> int | None:
    """Columns of the terminal; None where the output goes elsewhere, which has no width."""
    return os.get_terminal_size().columns if sys.stdout.isatty() else None
