"""The command `export`: write a session, or the night that it screened, in another format."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.records_folder import records_argument
from pytest_ipperf.cli.sessions import SESSION, records, summary_of
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import LabError, UsageError
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.store import opened_atomically


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help=SESSION)
    parser.add_argument("--format", dest="form", required=True, metavar="NAME", help=f"one of {', '.join(FORMATS)}")
    parser.add_argument("--output", "-o", default="", metavar="FILE", help="the file to write; default standard output")
    records_argument(parser)


def _run(args: argparse.Namespace) -> int:
    if args.form not in FORMATS:
        raise UsageError(f"--format: {args.form!r} does not exist; there are {', '.join(FORMATS)}")
    with records(args.records) as found:
        summary = summary_of(found, found.session(args.session))
        if not args.output:
            _print(FORMATS[args.form], summary)
            return 0
        try:
            with opened_atomically(Path(args.output)) as file:
                FORMATS[args.form].write(summary, file)
        except OSError as error:
            raise LabError(f"--output: {args.output} cannot be written ({error.strerror})") from error
    return 0


def _print(form: Report, summary: SessionSummary) -> None:
    """Write a whole session to standard output by way of a temporary file, and nothing if its records are damaged."""
    with tempfile.TemporaryFile() as file:
        try:
            form.write(summary, file)
            file.seek(0)
        except OSError as error:
            folder = tempfile.gettempdir()
            raise LabError(f"the temporary folder {folder} cannot hold it ({error.strerror}); use --output") from error
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


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
