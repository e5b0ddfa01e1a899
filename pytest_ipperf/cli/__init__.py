"""The program `pytest-ipperf`: what can be done beside measuring, and the gate of a night; each order is a file."""

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
from pytest_ipperf.cli.commands import ORDERS
from pytest_ipperf.cli.commands.base import give_up_output, warn
from pytest_ipperf.core.portable.errors import IpperfError, UsageError

# As pytest's own, see docs/exit-status.md.
TROUBLE, INTERRUPTED, USAGE = 1, 2, 4
_ENOUGH_FILES = 256


class _Parser(argparse.ArgumentParser):
    """Tells what it cannot read as everything here is told: in one sentence, with pytest's exit status."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.prog} --help tells what there is")


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Of the order that is asked alone, so that none waits for what another one imports; else of all."""
    parser = _Parser(prog="pytest-ipperf", description="Network measurements with pytest: what there is beside pytest.")
    parser.add_argument("--version", action="version", version=f"pytest-ipperf {__version__}")
    orders = parser.add_subparsers(dest="order", metavar="ORDER", required=True, parser_class=_Parser)
    names = argv[:1] if argv and argv[0] in ORDERS else ORDERS
    for name in names:
        order = ORDERS[name]
        own = orders.add_parser(name, help=order.help, description=order.description, epilog=order.epilog)
        order.arguments(own)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: the order's, or 1 for trouble, 2 for Ctrl-C, 4 for wrong usage."""
    _open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a command line may hold what is no text
    try:
        told = sys.argv[1:] if argv is None else argv
        asked, rest = _parser(told).parse_known_args(told)
        asked.rest = _passed_on(asked.order, rest)
        status = ORDERS[asked.order].run(asked)
        sys.stdout.flush()
    except UsageError as error:
        return _told(str(error), USAGE)
    except IpperfError as error:
        return _told(str(error), TROUBLE)
    except KeyboardInterrupt:
        return _told("interrupted", INTERRUPTED)
    except BrokenPipeError:  # who read has seen enough
        give_up_output()
        return 0
    except OSError as error:
        return _told(_trouble(error), TROUBLE)
    return status


def _open_closed() -> None:
    """Open the null device in place of each standard stream that was closed, for the programs started here as well.

    In their order, as each gets the lowest number that is free: else a file of ours would get it, and their output.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)  # noqa: FBT003 - it has no name
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8"))


def _trouble(error: OSError) -> str:
    if error.errno == errno.EMFILE:
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{allowed} open files are too few for this (ulimit -n); allow {_ENOUGH_FILES} or more"
    give_up_output()
    return f"{error.filename or 'the output'} cannot be read or written ({error.strerror})"


def _passed_on(order: str, rest: list[str]) -> list[str]:
    if rest and not ORDERS[order].passes_on:
        raise UsageError(f"unrecognized arguments: {' '.join(rest)}; pytest-ipperf {order} --help tells what there is")
    return rest


def _told(sentence: str, status: int) -> int:
    warn(f"pytest-ipperf: {sentence}")
    return status
