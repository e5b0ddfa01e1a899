"""Find the records folder of a command."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_ipperf.core.portable.errors import UsageError

FOLDER = ".ipperf"


def records_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--ipperf-records`, which pytest has too."""
    parser.add_argument(
        "--ipperf-records", "--records", dest="records", default="", metavar="FOLDER",
        help=f"the records folder; default {FOLDER} here or in the nearest parent directory that has one",
    )  # fmt: skip


def records_root(folder: str) -> Path:
    """Return the records folder: the one named, else the nearest; raise UsageError if there is none."""
    if folder:
        if not Path(folder).is_dir():
            raise UsageError(f"--ipperf-records: {folder!r} is not a folder")
        return Path(folder)
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / FOLDER).is_dir():
            return place / FOLDER
    raise UsageError(f"there is no {FOLDER} in {here} or above; measure first, or name a folder by --ipperf-records")
