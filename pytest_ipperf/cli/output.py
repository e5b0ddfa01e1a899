"""Write lines for people to standard output and standard error, which may be closed at any time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO


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
