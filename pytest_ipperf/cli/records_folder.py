"""Find the folder of records that a command works on."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_ipperf.core.portable.errors import UsageError

FOLDER = ".ipperf"


def records_argument(parser: argparse.ArgumentParser) -> None:
    """`--ipperf-records`, as pytest has it."""
    parser.add_argument(
        "--ipperf-records", "--records", dest="records", default="", metavar="FOLDER",
        help=f"where the records are; default {FOLDER} here or in the nearest directory above that has one",
    )  # fmt: skip


def records_root(folder: str) -> Path:
    """The folder of records that is meant; UsageError where there is none."""
    if folder:
        if not Path(folder).is_dir():
            raise UsageError(f"--ipperf-records: {folder!r} is no folder")
        return Path(folder)
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / FOLDER).is_dir():
            return place / FOLDER
    raise UsageError(f"there is no {FOLDER} in {here} or above; measure first, or name a folder by --ipperf-records")
