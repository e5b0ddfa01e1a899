"""The acceptances of a folder of records: a file of lines, each handed to the kernel whole, so that none is lost."""

from __future__ import annotations

import dataclasses
import datetime as dt
import errno
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_ipperf.core.acceptance import Acceptance
from pytest_ipperf.core.errors import LabError, UsageError

FILE = "accepted.jsonl"
_WITHDRAWN = "withdrawn"


def accept(root: Path, acceptance: Acceptance) -> None:
    """Appends an acceptance; LabError where that cannot be written."""
    plain = {**dataclasses.asdict(acceptance), "until": acceptance.until.isoformat()}
    del plain[_WITHDRAWN]  # which a line of its own says
    _append(root, plain)


def withdraw(root: Path, cell: str, *, reason: str, by: str, at: float) -> None:
    """Ends all acceptances of that very pattern, with the day before `at`; LabError where that cannot be written.

    They stay in the file: nights before that were decided by them.
    """
    _append(root, {_WITHDRAWN: cell, "reason": reason, "by": by, "at": at})


def acceptances(root: Path, *, by: float = math.inf) -> list[Acceptance]:
    """All that was ever accepted, as it stood `by` a time, the oldest first; UsageError naming a line that is none.

    Nothing is skipped: who believed it to hold would be told of a regression, and who believed it gone would not.
    """
    path = root / FILE
    found: list[Acceptance] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], start=1):
        try:
            plain = json.loads(line)
            told = [_ended(each, plain) for each in found] if _WITHDRAWN in plain else [*found, _acceptance(plain)]
            found = told if plain["at"] <= by else found
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}:{number}: {line[:60]!r} is no acceptance ({error}); remove the line") from None
    return found


def _acceptance(plain: Mapping[str, Any]) -> Acceptance:
    return Acceptance(**{**plain, "until": dt.date.fromisoformat(plain["until"])})


def _ended(acceptance: Acceptance, withdrawal: Mapping[str, Any]) -> Acceptance:
    """As it is after a withdrawal of its pattern."""
    last = dt.datetime.fromtimestamp(withdrawal["at"], dt.UTC).date() - dt.timedelta(days=1)
    if acceptance.cell != withdrawal[_WITHDRAWN] or acceptance.until <= last:
        return acceptance
    return dataclasses.replace(acceptance, until=last, withdrawn=f"{withdrawal['reason']} ({withdrawal['by']})")


def _append(root: Path, plain: Mapping[str, Any]) -> None:
    path = root / FILE
    line = (json.dumps(plain) + "\n").encode()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            start = file.tell()
            written = file.write(line)
            if written != len(line):
                file.truncate(start)  # half a line would spoil all others
            os.fsync(file)
    except OSError as error:
        raise LabError(f"acceptances: {path} cannot be written ({error.strerror})") from error
    if written != len(line):
        raise LabError(f"acceptances: {path} cannot be written ({os.strerror(errno.ENOSPC)})")
