"""Read the verdicts of the nights in a folder of records (`verdict.json`)."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.core.nightly.report import RED, GateDecision, GateStatus
from pytest_ipperf.core.portable.errors import DamageError, LabError
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.store.atomic_files import check_is_file
from pytest_ipperf.store.log import validators as valid
from pytest_ipperf.store.log.checksum import KEY
from pytest_ipperf.store.log.validators import Validator

VERDICT = "verdict.json"
LOST = "records"
"""Node id of a night's trouble that is no item: an answer, or a session's end, could not be kept."""
_REDS = {decision.name.lower() for decision in RED}
_REMEDY = "; put back a copy of it, or remove the night's folder"
_STATUSES = frozenset(map(int, GateStatus))
_NEEDED: Mapping[str, Validator] = {
    "session": valid.key,
    "saved": valid.key,
    "status": lambda value: type(value) is int and value in _STATUSES,
    "cells": valid.listed(valid.named(valid.anything)),
}
_OPTIONAL: Mapping[str, Validator] = {
    "light": valid.among([gate_status.name.lower() for gate_status in GateStatus]),
    "began_at": valid.maybe(valid.moment),
    "fresh_session": valid.maybe(valid.key),
    "baseline": valid.key,
    "troubles": valid.listed(valid.named(valid.text)),
    "warnings": valid.listed(valid.text),
}
_CELL: Mapping[str, Validator] = {
    "cell": valid.key,
    "metric": valid.key,
    "ruling": valid.among([decision.name.lower() for decision in GateDecision]),
}
_OF_CELL: Mapping[str, Validator] = {"version": valid.key}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNight:
    """A finished night: its `name`, its screening's `session`, the name it was `saved` under, its `gate_status`.

    It began at `began_at` (seconds since 1970). `red` are the cells (with their metric) that it found worse, `cells`
    those that the next night must measure, too. `margins` are the margins that it asked, as a cell with its metric and
    the margin's text. `lost` says that some of its records could not be kept.
    """

    name: str
    session: str
    saved: str
    began_at: float
    gate_status: int
    red: tuple[tuple[str, str], ...]
    cells: tuple[HistoryKey, ...]
    margins: frozenset[tuple[str, str, str]] = frozenset()
    lost: bool = False

    @property
    def is_credible(self) -> bool:
        """Return whether its other cells can be compared with."""
        return self.gate_status != GateStatus.UNSTABLE


def nights_in(root: Path, but: Container[str] = (), unread: dict[str, str] | None = None) -> Iterator[StoredNight]:
    """Iterate over the nights with a verdict below a folder of records, newest first, except those named in `but`.

    `unread` receives, by name, a sentence about each night whose verdict is missing or cannot be read.
    """
    for folder in sorted((root / "nights").glob("*"), reverse=True):
        if folder.name in but:
            continue
        try:
            if os.path.lexists(folder / VERDICT):
                yield read_night(root, folder.name)
            else:
                check_verdict_is_there(root, folder.name)
        except LabError as error:
            if unread is not None:
                unread[folder.name] = str(error)


def check_verdict_is_there(root: Path, name: str) -> None:
    """Raise DamageError if a night has no verdict but other files, which are written after the verdict."""
    folder = root / "nights" / name
    others = [path.name for path in folder.glob("*") if not path.name.startswith(".")]
    if others and VERDICT not in others:
        raise DamageError(
            f"night {name}: {VERDICT} is no longer in {folder}, where {min(others)} is; put back a copy of it, or "
            "remove that folder to treat its session as one without a night"
        )


def read_night(root: Path, name: str) -> StoredNight:
    """Return the night of that name; DamageError if its verdict cannot be read."""
    return _night(name, read_verdict(root, name))


def read_verdict(root: Path, name: str) -> Mapping[str, Any]:
    """Return the verdict document of the night of that name; DamageError if it is not as it was written."""
    path = root / "nights" / name / VERDICT
    try:
        check_is_file(path)
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise DamageError(f"night {name}: {path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise DamageError(f"night {name}: {path} is not a verdict (it is not JSON){_REMEDY}") from None
    if why := _wrong(name, document):
        raise DamageError(f"night {name}: {path} is not a verdict ({why}){_REMEDY}")
    found: Mapping[str, Any] = document
    return found


def verdict_with_checksum(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a verdict's file, with a checksum of its content."""
    return json.dumps({**document, KEY: _checksum(document)}, indent=1, allow_nan=False).encode() + b"\n"


def _checksum(document: Mapping[str, Any]) -> str:
    content = {name: value for name, value in document.items() if name != KEY}
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def _wrong(name: str, document: Any) -> str:
    """Return why a document is not the verdict of that night; empty if it is. Earlier versions wrote no checksum."""
    if not isinstance(document, dict):
        return "it is not an object"
    if KEY in document and document[KEY] != _checksum(document):
        return "its checksum does not match its content"
    why = valid.wrong(document, _NEEDED, _OPTIONAL)
    if not why and document["session"] != name:
        why = f"it belongs to session {valid.shown(document['session'])}"
    cells = ("" if why else valid.wrong(each, _CELL, _OF_CELL) for each in ([] if why else document["cells"]))
    return why or next((f"of a cell {each}" for each in cells if each), "")


def _night(name: str, verdict: Mapping[str, Any]) -> StoredNight:
    cells = [
        (HistoryKey(each["cell"], each["metric"], each.get("version", "")), each["ruling"]) for each in verdict["cells"]
    ]
    return StoredNight(
        name=name,
        session=verdict["session"],
        saved=verdict["saved"],
        began_at=float(verdict.get("began_at") or 0),
        gate_status=GateStatus(verdict["status"]),
        red=tuple((key.cell, key.metric) for key, decision in cells if decision in _REDS),
        cells=tuple(key for key, _ in cells),
        margins=frozenset(
            (each["cell"], each["metric"], margin) for each in verdict["cells"] if (margin := _margin(each))
        ),
        lost=any(each.get("nodeid") == LOST for each in verdict.get("troubles", ())),
    )


def _margin(cell: Mapping[str, Any]) -> str:
    """Return the margin by which a cell was judged; empty if it was not, or in verdicts of another form."""
    screen = cell.get("screen")
    margin = screen.get("margin") if isinstance(screen, dict) else ""
    return margin if isinstance(margin, str) else ""
