"""The command `open`: open a session's page in the browser."""

from __future__ import annotations

import argparse
import webbrowser

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import warn, write_lines
from pytest_ipperf.cli.records_folder import records_argument
from pytest_ipperf.cli.sessions import SESSION, records, summary_of
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.store import LAST

_PAGE = "report.html"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", nargs="?", default=LAST, help=f"{SESSION}; default last")
    parser.add_argument("--print", dest="only_print", action="store_true", help="print the page's path, open nothing")
    records_argument(parser)


def _run(args: argparse.Namespace) -> int:
    """Print the page's path and open it; write the page first if the session was killed before it could."""
    from pytest_ipperf.report.page import write  # noqa: PLC0415 - imports matplotlib, which only a missing page needs

    with records(args.records) as found:
        session = found.session(args.session)
        # The night's page has the decisions about all its cells.
        night = found.root / "nights" / session.name / _PAGE if session.entry else session.folder / _PAGE
        page = night if night.exists() else session.folder / _PAGE
        if not page.exists():
            try:
                write(summary_of(found, session, damage=[]), page)
            except OSError as error:
                raise LabError(f"{page} cannot be written ({error.strerror})") from error
    write_lines([str(page)])
    if not args.only_print and not webbrowser.open(page.resolve().as_uri()):
        warn("pytest-ipperf: there is no browser here; open the file above in one")
    return 0


command = Command(
    help="open a session's page in the browser",
    description=(
        "Prints the path of a session's page, or of the night that it screened, and opens it in the browser. A session "
        "that was killed before it could write its page gets it now."
    ),
    arguments=_arguments,
    run=_run,
)
