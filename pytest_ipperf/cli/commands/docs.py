"""`docs` prints a page of the documentation, which messages and the README name by its file."""

from __future__ import annotations

import argparse

from pytest_ipperf.cli import shipped_files
from pytest_ipperf.cli.commands.base import Order, write_lines


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "page", nargs="?", default="", metavar="PAGE", help="such as hosts or docs/hosts.md; default: list all pages"
    )


def _run(asked: argparse.Namespace) -> int:
    """Return 0; UsageError for a page that does not exist."""
    if asked.page:
        write_lines(shipped_files.page(asked.page).splitlines())
        return 0
    titles = {name: shipped_files.page(name).partition("\n")[0].removeprefix("# ") for name in shipped_files.pages()}
    width = max(map(len, titles))
    write_lines(f"{name:<{width}}  {title}" for name, title in titles.items())
    return 0


order = Order(
    help="print a page of the documentation, or list all",
    description="Prints a page of the documentation, in Markdown; without PAGE lists all pages.",
    arguments=_arguments,
    run=_run,
)
