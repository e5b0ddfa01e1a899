"""Read and append the acceptances of a folder of records, one line each, written whole so that none is lost."""

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

from pytest_ipperf.core.nightly.acceptance import Acceptance
from pytest_ipperf.core.portable.errors import LabError, UsageError
from pytest_ipperf.store.atomic_files import check_is_file
from pytest_ipperf.store.log import validators as valid
from pytest_ipperf.store.log.checksum import KEY, checksum_matches, checksum_of, with_checksum
from pytest_ipperf.store.log.validators import Validator

FILE = "accepted.jsonl"
_WITHDRAWN = "withdrawn"


def _pattern(value: Any) -> bool:
    return valid.key(value) and bool(value)


_SAID: Mapping[str, Validator] = {"reason": valid.text, "by": valid.text, "at": valid.moment}
_ACCEPTANCE: Mapping[str, Validator] = {
    "cell": _pattern, "metric": valid.key, **_SAID, "until": valid.text, "up_to": valid.maybe(valid.positive),
}  # fmt: skip
_WITHDRAWAL: Mapping[str, Validator] = {_WITHDRAWN: _pattern, **_SAID}


def accept(root: Path, acceptance: Acceptance) -> None:
    """Append an acceptance; LabError if it cannot be written, UsageError if an earlier line is invalid."""
    plain = {**dataclasses.asdict(acceptance), "until": acceptance.until.isoformat()}
    del plain[_WITHDRAWN]  # a withdrawal is a line of its own
    _append(root, plain)


def withdraw(root: Path, cell: str, *, reason: str, by: str, at: float) -> None:
    """End all acceptances of exactly that pattern with the day before `at`; raises as `accept` does.

    They stay in the file because they decided earlier nights.
    """
    _append(root, {_WITHDRAWN: cell, "reason": reason, "by": by, "at": at})


def acceptances(root: Path, *, by: float = math.inf) -> list[Acceptance]:
    """Return all acceptances as they stood at the time `by`, oldest first; UsageError naming an invalid line.

    No line is skipped: a lost acceptance would report a regression, and a lost withdrawal would hide one.
    """
    path = root / FILE
    result: list[Acceptance] = []
    for number, line in enumerate(_lines(path), start=1):
        try:
            plain = _plain(line)
            changed = [_ended(each, plain) for each in result] if _WITHDRAWN in plain else [*result, _acceptance(plain)]
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            begins = valid.shown(line.decode(errors="replace"))
            raise UsageError(f"{path}:{number}: {begins} is not an acceptance ({error}); remove the line") from None
        result = changed if plain["at"] <= by else result
    return result


def _lines(path: Path) -> list[bytes]:
    if not os.path.lexists(path):
        return []
    try:
        check_is_file(path)
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); the acceptances are unknown") from None
    return lines if lines[-1] else lines[:-1]


def _plain(line: bytes) -> Mapping[str, Any]:
    """Parse a line; ValueError if it is neither an acceptance nor a withdrawal."""
    if checksum_of(line + b"\n") is not None and not checksum_matches(line + b"\n"):
        raise ValueError("its checksum does not match its bytes")
    plain = json.loads(line.decode())
    if not isinstance(plain, dict):
        raise TypeError("it is not an object")
    if KEY in plain and checksum_of(line + b"\n") is None:  # a byte of the checksum itself is damaged
        raise ValueError("its checksum is not valid")
    plain.pop(KEY, None)
    needed = _WITHDRAWAL if _WITHDRAWN in plain else _ACCEPTANCE
    if why := valid.wrong(plain, needed, {}):
        raise ValueError(why)
    if unknown := plain.keys() - needed.keys():
        raise ValueError(f"it has an unknown key {min(unknown)!r}")
    return plain


def _acceptance(plain: Mapping[str, Any]) -> Acceptance:
    return Acceptance(**{**plain, "until": dt.date.fromisoformat(plain["until"])})


def _ended(acceptance: Acceptance, withdrawal: Mapping[str, Any]) -> Acceptance:
    """Return the acceptance as it is after a withdrawal."""
    last = dt.datetime.fromtimestamp(withdrawal["at"], dt.UTC).date() - dt.timedelta(days=1)
    if acceptance.cell != withdrawal[_WITHDRAWN] or acceptance.until <= last:
        return acceptance
    return dataclasses.replace(acceptance, until=last, withdrawn=f"{withdrawal['reason']} ({withdrawal['by']})")


def _append(root: Path, plain: Mapping[str, Any]) -> None:
    acceptances(root)  # a line after a damaged one would be lost
    path = root / FILE
    line, _ = with_checksum(json.dumps(plain))
    try:
        root.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            start = file.tell()
            line = b"\n" * _lacks_end(path) + line
            written = file.write(line)
            if written != len(line):
                file.truncate(start)  # a partial line would make the file unreadable
            os.fsync(file)
    except OSError as error:
        raise LabError(f"acceptances: {path} cannot be written ({error.strerror})") from error
    if written != len(line):
        raise LabError(f"acceptances: {path} cannot be written ({os.strerror(errno.ENOSPC)})")


def _lacks_end(path: Path) -> bool:
    """Return whether the last line lacks its newline, as some editors leave it."""
    data = path.read_bytes()
    return bool(data) and not data.endswith(b"\n")
