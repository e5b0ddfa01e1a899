"""The command `docs`: print a page of the documentation, by the file name that messages and the README give."""

from __future__ import annotations

import argparse

from pytest_ipperf.cli import shipped_files
from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import write_lines


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "page", nargs="?", default="", metavar="PAGE", help="such as hosts or docs/hosts.md; default: list all pages"
    )


def _run(args: argparse.Namespace) -> int:
    """Return 0; raise UsageError for a page that does not exist."""
    if args.page:
        write_lines(shipped_files.page(args.page).splitlines())
        return 0
    titles = {name: shipped_files.page(name).partition("\n")[0].removeprefix("# ") for name in shipped_files.pages()}
    width = max(map(len, titles))
    write_lines(f"{name:<{width}}  {title}" for name, title in titles.items())
    return 0


command = Command(
    help="print a page of the documentation, or list all",
    description="Prints a page of the documentation, in Markdown; without PAGE lists all pages.",
    arguments=_arguments,
    run=_run,
)
