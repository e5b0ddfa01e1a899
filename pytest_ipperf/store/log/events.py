"""Read the events of an event log line by line, validate them, and migrate them to the current schema.

What a killed writer or a power failure leaves after the last newline (a partial line, zeros) is ignored. A whole line
that is no event, or does not continue the checksums, is damage, even at the end: writers write whole lines, so no kind
of interruption produces one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pytest_ipperf.core.portable.errors import DamageError
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store.atomic_files import check_is_file
from pytest_ipperf.store.log import validators as valid
from pytest_ipperf.store.log.checksum import checksum_matches, checksum_of
from pytest_ipperf.store.log.migration import Facts, check_schema, has_checksums, migrated
from pytest_ipperf.store.log.records import INVALID_EVENT_ERRORS, plain_record
from pytest_ipperf.store.log.validators import Validator

_WORKLOAD: Mapping[str, Validator] = {"workload": valid.text}
_SAMPLES: Mapping[str, Validator] = {"rows": valid.count, "offset": valid.count}
_ITEM: Mapping[str, Validator] = {"nodeid": valid.text, "sentence": valid.text}
_FACTS = valid.named(valid.anything)
_ORDER = valid.named(valid.one_of(valid.count, valid.listed(valid.one_of(valid.text, valid.listed(valid.text)))))

_NEEDED: Mapping[str, Mapping[str, Validator]] = {
    "session": {
        "at": valid.moment, "schema": valid.count, "seed": valid.seed, "design": valid.named(valid.anything),
        "saved": valid.key, "arguments": valid.listed(valid.text), "pytest_ipperf": valid.key,
    },
    "taken": {**_WORKLOAD, "folder": valid.text},
    "begun": {**_WORKLOAD, "folder": valid.text},
    "anew": _WORKLOAD,
    "plan": {"items": valid.named(valid.text)},
    "workload": {**_WORKLOAD, "order": valid.listed(_ORDER)},
    "epoch": {**_WORKLOAD, "epoch": valid.count, "server": valid.text, "fingerprint": valid.named(_FACTS)},
    "run": {
        **_WORKLOAD, **_SAMPLES, "arm": valid.arm, "warmup": valid.flag, "columns": valid.listed(valid.text),
        "failed": valid.named(valid.count),
    },
    "floor": {**_WORKLOAD, "arm": valid.arm, "value": valid.maybe(valid.finite)},
    "complete": _WORKLOAD,
    "time": {"seconds": valid.named(valid.not_negative)},
    "broken": {**_WORKLOAD, "sentence": valid.text},
    "note": {"text": valid.text},
    "undecided": _ITEM,
    "trouble": {**_ITEM, "kind": valid.text},
    "left": {"sentence": valid.text},
    "end": {"status": valid.whole, "seconds": valid.not_negative},
}  # fmt: skip
"""Required keys of each event; those of a record are in `records.py`."""

_OPTIONAL: Mapping[str, Mapping[str, Validator]] = {
    "session": {
        "reference": valid.text, "server": valid.text, "backend": valid.text,
        "client": valid.text, "rate_per_s": valid.not_negative, "workers": valid.count,
        "deadline_s": valid.not_negative, "reboot": valid.flag, "confirm": valid.flag, "pytest": valid.text,
        "commit": valid.text, "dirty": valid.flag,
    },
    "taken": {"session": valid.text},
    "begun": {"session": valid.text},
    "anew": {"why": valid.text},
    "workload": {
        "seed": valid.seed, "confirms": valid.flag, "testbed": _FACTS, "state": valid.text, "asked": _FACTS,
        "models": valid.named(valid.text),
    },
    "reboot": {**_WORKLOAD, "epoch": valid.count, "seconds": valid.named(valid.finite)},
    "epoch": {
        "resolver": valid.text, "paths": valid.named(_FACTS), "service": _FACTS, "backends": valid.named(valid.text),
    },
    "counters": {**_WORKLOAD, "epoch": valid.count, "when": valid.text, "hosts": valid.named(_FACTS)},
    "run": {
        "epoch": valid.count, "block": valid.whole, "slot": valid.count, "started_at": valid.finite,
        "attempted": valid.count, "values": valid.named(valid.maybe(valid.real)), "facts": _FACTS,
        "notes": valid.listed(valid.text), "proof": _FACTS, "client": valid.maybe(_FACTS),
        "samples_crc32": valid.count, "began_at": valid.finite, "took_s": valid.not_negative,
        "drain_s": valid.not_negative, "finish_s": valid.not_negative,
    },
    "floor": {**_SAMPLES, "attempted": valid.count, "failed": valid.named(valid.count), "proof": _FACTS},
    "look": {
        **_WORKLOAD, "look": valid.count, "looks": valid.count, "epochs": valid.count, "verdicts": valid.named(_FACTS),
        "going_on": valid.listed(valid.text), "stopped": valid.text,
    },
    "complete": {
        "testbed": _FACTS, "state": valid.text, "models": valid.named(valid.text), "asked": _FACTS, "service": _FACTS,
        "network": _FACTS,
        "looks": valid.named(valid.count), "answered": valid.listed(valid.text), "trouble": valid.named(valid.text),
        "stopped": valid.text, "seconds": valid.listed(valid.not_negative),
    },
    "time": {**_WORKLOAD, "epoch": valid.count},
    "undecided": {"kind": valid.text},
    "end": {"files": valid.named(valid.count), "missing": valid.listed(valid.text)},
}  # fmt: skip
"""Optional keys of each event; earlier versions did not write all of them."""

_EVERY: Mapping[str, Validator] = {"at": valid.moment}
_MIGRATED = frozenset({"session", "record"})
_DESIGN: Mapping[str, Validator] = {"name": valid.key}


@dataclass(frozen=True, slots=True)
class Event:
    """A line in the current schema: its `kind`, its `facts`, and its record if it holds one."""

    kind: str
    facts: Facts
    record: Record | None = None


@dataclass(slots=True)
class ReadPosition:
    """Position in an event log: bytes and lines read, the last line's checksum, and the schema.

    `partial_line` says that a partial line follows, which its writer may be about to complete.
    """

    at: int = 0
    lines: int = 0
    checksum: int = 0
    schema: int | None = None
    partial_line: bool = False


def read_events(path: Path, position: ReadPosition | None = None) -> Iterator[Event]:
    """Iterate over the events after `position`, which is advanced, up to the last whole line.

    Raises DamageError with file and line at an invalid line, UsageError naming the session for an unsupported schema.
    """
    position = position or ReadPosition()
    position.partial_line = False
    try:
        with _opened(path) as file:
            file.seek(position.at)
            for line in file:
                if not line.endswith(b"\n"):
                    position.partial_line = True  # it is being written, or its writer was killed
                    return
                event = _event(line, path, position)
                position.at += len(line)
                position.lines += 1
                yield event
    except OSError as error:
        raise unreadable(path, error) from None


def read_kind(path: Path, kind: str) -> Iterator[Facts]:
    """Iterate over the events of one kind, without parsing those of others; an invalid one ends them.

    For figures beside the measurement: damage of other lines is not noticed.
    """
    head = json.dumps({"event": kind})[:-1].encode()
    with _opened(path) as file:
        for line in file:
            if line.startswith(head + b","):
                try:
                    yield _checked(kind, json.loads(line)).facts
                except INVALID_EVENT_ERRORS:
                    return


def _opened(path: Path) -> BinaryIO:
    """Open a regular file; anything else might block the reader."""
    check_is_file(path)
    return path.open("rb")


class UnreadableError(DamageError):
    """Raised if a file exists and cannot be read; that may change without a new modification time."""


def unreadable(path: Path, error: OSError) -> UnreadableError:
    """Return the error of an event log that exists and cannot be read."""
    return UnreadableError(f"session {path.parent.name}: {path.name} cannot be read ({error.strerror})")


def damaged(path: Path, line: int, why: str) -> DamageError:
    """Return the error of an invalid line of an event log."""
    return DamageError(
        f"session {path.parent.name}: {path.name}:{line} is damaged ({why}), and only what precedes that line is "
        "known; put back a copy of the file, or clear the session out"
    )


def _event(line: bytes, path: Path, position: ReadPosition) -> Event:
    try:
        plain = _plain(line, position.checksum)
        kind = plain["event"]
        if position.lines == 0:
            position.schema = _schema(plain, path)
        if position.schema is None:
            raise ValueError("no event 'session' precedes it")
        checksum = checksum_of(line)
        if checksum is None and has_checksums(position.schema):
            raise ValueError("it has no checksum")
        position.checksum = checksum or 0
        return _checked(kind, migrated(plain, position.schema) if kind in _MIGRATED else plain)
    except INVALID_EVENT_ERRORS as error:
        raise damaged(path, position.lines + 1, f"{error}") from None


def _plain(line: bytes, checksum: int) -> Facts:
    if checksum_of(line) is not None and not checksum_matches(line, checksum):
        raise ValueError("its checksum does not match its bytes and the lines before it")
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON" if b"\0" not in line else "it contains zeros") from None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise TypeError("it is not an event")
    return event


def _schema(plain: Facts, path: Path) -> int:
    if plain["event"] != "session":
        raise ValueError("an event log begins with an event 'session'")
    return check_schema(plain.get("schema"), path.parent.name)


def _checked(kind: str, facts: Facts) -> Event:
    """Validate an event; unknown keys and events, which later versions may write, pass."""
    if kind == "record":
        return Event(kind, facts, plain_record(facts))
    why = valid.wrong(facts, _NEEDED.get(kind, {}), {**_EVERY, **_OPTIONAL.get(kind, {})})
    if not why and kind == "session":
        why = valid.wrong(facts["design"], _DESIGN, {})
    if why:
        raise ValueError(f"of its event {valid.shown(kind)} {why}")
    return Event(kind, facts)
