"""The command `export`: write a session, or the night that it screened, in another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.records_folder import records_argument
from pytest_ipperf.cli.sessions import SESSION, records, summary_of
from pytest_ipperf.core.portable.errors import LabError, UsageError
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.store import write_atomically


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help=SESSION)
    parser.add_argument("--format", dest="form", required=True, metavar="NAME", help=f"one of {', '.join(FORMATS)}")
    parser.add_argument("--output", "-o", default="", metavar="FILE", help="the file to write; default standard output")
    records_argument(parser)


def _run(args: argparse.Namespace) -> int:
    if args.form not in FORMATS:
        raise UsageError(f"--format: {args.form!r} does not exist; there are {', '.join(FORMATS)}")
    with records(args.records) as found:
        document = FORMATS[args.form].render(summary_of(found, found.session(args.session)))
    if not args.output:
        sys.stdout.buffer.write(document)
        sys.stdout.buffer.flush()
        return 0
    try:
        write_atomically(Path(args.output), document)
    except OSError as error:
        raise LabError(f"--output: {args.output} cannot be written ({error.strerror})") from error
    return 0


command = Command(
    help="write a session, with its night, in another format",
    description=(
        "Writes a session in another format, with the night's decisions if it was the screening of a night. The result "
        "depends on the records alone, so it is the same at any time. If they are damaged, nothing is written."
    ),
    epilog=f"Formats: {', '.join(FORMATS)}.",
    arguments=_arguments,
    run=_run,
)
