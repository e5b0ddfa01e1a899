"""The acceptances of a folder of records: a file of lines, each handed to the kernel whole, so that none is lost."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
from pathlib import Path

from pytest_ipperf.core.acceptance import Acceptance
from pytest_ipperf.core.errors import LabError, UsageError

FILE = "accepted.jsonl"


def accept(root: Path, acceptance: Acceptance) -> None:
    """Appends an acceptance; LabError where that cannot be written."""
    line = json.dumps({**dataclasses.asdict(acceptance), "until": acceptance.until.isoformat()}) + "\n"
    path = root / FILE
    try:
        root.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            file.write(line.encode())
            os.fsync(file)
    except OSError as error:
        raise LabError(f"acceptances: {path} cannot be written ({error.strerror})") from error


def acceptances(root: Path) -> list[Acceptance]:
    """All that was ever accepted, the oldest first; UsageError naming the line that is no acceptance.

    Nothing is skipped: who believed it to hold would be told of a regression, and who believed it gone would not.
    """
    path = root / FILE
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], start=1):
        try:
            plain = json.loads(line)
            found.append(Acceptance(**{**plain, "until": dt.date.fromisoformat(plain["until"])}))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}:{number}: {line[:60]!r} is no acceptance ({error}); remove the line") from None
    return found
