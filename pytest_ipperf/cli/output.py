"""Write lines to standard output and standard error, which may be closed at any time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

_SGR = {"red": 31, "green": 32, "yellow": 33}
"""Parameters of the control sequence "select graphic rendition" (ECMA-48, section 8.3.117)."""


def write_lines(lines: Iterable[str]) -> None:
    """Write to standard output; a reader that closes the pipe does not change the exit status."""
    try:
        for line in lines:
            print(line)  # noqa: T201 - the output of the command
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_output()


def warn(sentence: str) -> None:
    """Write a line to standard error; a failure to do so does not change the exit status."""
    try:
        print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - apart from the output
    except OSError:
        give_up_output(sys.stderr)


def give_up_output(stream: TextIO | None = None) -> None:
    """Redirect a stream, by default standard output, to the null device, as the interpreter flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def screen_width() -> int | None:
    """Return the columns of the terminal; None if standard output is not a terminal."""
    return os.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured(text: str, colour: str) -> str:
    """Return the text with the escape sequences of a colour on a terminal, unless NO_COLOR is set or TERM is dumb."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or colour not in _SGR else f"\x1b[{_SGR[colour]}m{text}\x1b[0m"
