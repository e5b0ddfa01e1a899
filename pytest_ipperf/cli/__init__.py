"""The program `pytest-ipperf`. Each of its commands is a file in `commands/`."""

from __future__ import annotations

import argparse
import errno
import io
import os
import resource
import sys
from collections.abc import Sequence
from typing import NoReturn

from pytest_ipperf import __version__
from pytest_ipperf.cli.commands import COMMANDS
from pytest_ipperf.cli.output import give_up_output, warn
from pytest_ipperf.core.portable.errors import IpperfError, UsageError

# The same as pytest's, see docs/exit-status.md.
TROUBLE, INTERRUPTED, USAGE = 1, 2, 4
_ENOUGH_FILES = 256


class _Parser(argparse.ArgumentParser):
    """A parser that reports wrong usage like every other error: one line, with pytest's exit status."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of the named command only, without importing the others; of all commands if none is named."""
    parser = _Parser(prog="pytest-ipperf", description="Network measurements with pytest: further commands.")
    parser.add_argument("--version", action="version", version=f"pytest-ipperf {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    names = argv[:1] if argv and argv[0] in COMMANDS else COMMANDS
    for name in names:
        command = COMMANDS[name]
        subparser = subparsers.add_parser(
            name, help=command.help, description=command.description, epilog=command.epilog
        )
        command.arguments(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return the exit status of the command, or 1 for trouble, 2 for Ctrl-C, 4 for wrong usage."""
    _reopen_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a command line may contain undecodable bytes
    try:
        given = sys.argv[1:] if argv is None else argv
        args, rest = _parser(given).parse_known_args(given)
        args.rest = _forwarded(args.command, rest)
        status = COMMANDS[args.command].run(args)
        sys.stdout.flush()
    except UsageError as error:
        return _fail(str(error), USAGE)
    except IpperfError as error:
        return _fail(str(error), TROUBLE)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader has closed the pipe
        give_up_output()
        return 0
    except OSError as error:
        return _fail(_trouble(error), TROUBLE)
    return status


def _reopen_closed_streams() -> None:
    """Open the null device in place of each standard stream that was closed, also for child processes.

    The streams are opened in the order of their numbers, since each gets the lowest one that is free.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)  # noqa: FBT003 - positional-only
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8"))


def _trouble(error: OSError) -> str:
    if error.errno == errno.EMFILE:
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{allowed} open files are too few for this (ulimit -n); allow {_ENOUGH_FILES} or more"
    give_up_output()
    return f"{error.filename or 'the output'} cannot be read or written ({error.strerror})"


def _forwarded(command: str, rest: list[str]) -> list[str]:
    if rest and not COMMANDS[command].forwards_unknown:
        raise UsageError(f"unrecognized arguments: {' '.join(rest)}; see pytest-ipperf {command} --help")
    return rest


def _fail(sentence: str, status: int) -> int:
    warn(f"pytest-ipperf: {sentence}")
    return status
