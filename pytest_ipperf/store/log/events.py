"""The events of an event log, line by line: sealed, of the form of today, and with values that such an event can have.

What a killed writer or a loss of power leaves behind the last line's end (half a line, zeros) is none of them. A whole
line that is no event, or does not fit the lines before it, is damage, also where it is the last one: writers hand over
whole lines, so nothing that ends in order or in disorder leaves one.
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
from pytest_ipperf.store.log import kinds
from pytest_ipperf.store.log.kinds import Kind
from pytest_ipperf.store.log.migration import Facts, check_schema, is_sealed, migrated
from pytest_ipperf.store.log.records import WRONG, plain_record
from pytest_ipperf.store.log.seal import holds, seal_of

_WORKLOAD: Mapping[str, Kind] = {"workload": kinds.text}
_SAMPLES: Mapping[str, Kind] = {"rows": kinds.count, "offset": kinds.count}
_ITEM: Mapping[str, Kind] = {"nodeid": kinds.text, "sentence": kinds.text}
_FACTS = kinds.named(kinds.anything)
_ORDER = kinds.named(kinds.one_of(kinds.count, kinds.listed(kinds.one_of(kinds.text, kinds.listed(kinds.text)))))

_NEEDED: Mapping[str, Mapping[str, Kind]] = {
    "session": {
        "at": kinds.moment, "schema": kinds.count, "seed": kinds.seed, "design": kinds.named(kinds.anything),
        "saved": kinds.key, "arguments": kinds.listed(kinds.text), "pytest_ipperf": kinds.key,
    },
    "taken": {**_WORKLOAD, "folder": kinds.text},
    "anew": _WORKLOAD,
    "plan": {"items": kinds.named(kinds.text)},
    "workload": {**_WORKLOAD, "order": kinds.listed(_ORDER)},
    "epoch": {**_WORKLOAD, "epoch": kinds.count, "server": kinds.text, "fingerprint": kinds.named(_FACTS)},
    "run": {
        **_WORKLOAD, **_SAMPLES, "arm": kinds.text, "warmup": kinds.flag, "columns": kinds.listed(kinds.text),
        "failed": kinds.named(kinds.count),
    },
    "floor": {**_WORKLOAD, "arm": kinds.text, "value": kinds.maybe(kinds.finite)},
    "complete": _WORKLOAD,
    "broken": {**_WORKLOAD, "sentence": kinds.text},
    "note": {"text": kinds.text},
    "undecided": _ITEM,
    "trouble": {**_ITEM, "kind": kinds.text},
    "left": {"sentence": kinds.text},
    "end": {"status": kinds.whole, "seconds": kinds.not_negative},
}  # fmt: skip
"""The keys that an event must have; those of a record are in `records.py`."""

_OPTIONAL: Mapping[str, Mapping[str, Kind]] = {
    "session": {
        "reference": kinds.text, "server": kinds.text, "backend": kinds.text,
        "client": kinds.text, "rate_per_s": kinds.not_negative, "workers": kinds.count,
        "deadline_s": kinds.not_negative, "reboot": kinds.flag, "pytest": kinds.text,
    },
    "taken": {"session": kinds.text},
    "anew": {"why": kinds.text},
    "workload": {"seed": kinds.seed},
    "reboot": {**_WORKLOAD, "epoch": kinds.count, "seconds": kinds.named(kinds.finite)},
    "epoch": {"resolver": kinds.text, "paths": kinds.named(_FACTS)},
    "counters": {**_WORKLOAD, "epoch": kinds.count, "when": kinds.text, "hosts": kinds.named(_FACTS)},
    "run": {
        "epoch": kinds.count, "block": kinds.whole, "slot": kinds.count, "started_at": kinds.finite,
        "attempted": kinds.count, "values": kinds.named(kinds.maybe(kinds.real)), "facts": _FACTS,
        "notes": kinds.listed(kinds.text), "proof": _FACTS, "client": kinds.maybe(_FACTS),
        "samples_crc32": kinds.count,
    },
    "floor": {**_SAMPLES, "attempted": kinds.count, "failed": kinds.named(kinds.count), "proof": _FACTS},
    "look": {
        **_WORKLOAD, "look": kinds.count, "looks": kinds.count, "epochs": kinds.count, "verdicts": kinds.named(_FACTS),
        "going_on": kinds.listed(kinds.text), "stopped": kinds.text,
    },
    "complete": {
        "testbed": _FACTS, "state": kinds.text, "asked": _FACTS, "service": _FACTS, "network": _FACTS,
        "looks": kinds.named(kinds.count), "answered": kinds.listed(kinds.text), "trouble": kinds.named(kinds.text),
        "stopped": kinds.text, "seconds": kinds.listed(kinds.not_negative),
    },
    "undecided": {"kind": kinds.text},
    "end": {"files": kinds.named(kinds.count), "missing": kinds.listed(kinds.text)},
}  # fmt: skip
"""The keys that an event may have; earlier versions did not write all of them."""

_EVERY: Mapping[str, Kind] = {"at": kinds.moment}
_MIGRATED = frozenset({"session", "record"})
_DESIGN: Mapping[str, Kind] = {"name": kinds.key}


@dataclass(frozen=True, slots=True)
class Event:
    """A line, as today's version would have written it: its `kind`, its `facts`, and the record if it holds one."""

    kind: str
    facts: Facts
    record: Record | None = None


@dataclass(slots=True)
class ReadPosition:
    """How far an event log was read: up to which byte, how many lines, the last one's checksum, and their schema.

    `half` says that half a line stands behind them, which its writer may be about to complete.
    """

    at: int = 0
    lines: int = 0
    seal: int = 0
    schema: int | None = None
    half: bool = False


def read_events(path: Path, place: ReadPosition | None = None) -> Iterator[Event]:
    """The events of an event log from a `place` on, which goes along, up to where whole lines end.

    DamageError with file and line at what is none, UsageError naming the session where the schema is not read here.
    """
    place = place or ReadPosition()
    place.half = False
    try:
        with _opened(path) as file:
            file.seek(place.at)
            for line in file:
                if not line.endswith(b"\n"):
                    place.half = True  # it is being written, or its writer was killed
                    return
                event = _event(line, path, place)
                place.at += len(line)
                place.lines += 1
                yield event
    except OSError as error:
        raise unreadable(path, error) from None


def _opened(path: Path) -> BinaryIO:
    """A file, and nothing that would keep a reader waiting."""
    check_is_file(path)
    return path.open("rb")


class UnreadableError(DamageError):
    """A file is there and cannot be read, by its rights or by what it is: that may change without a new time on it."""


def unreadable(path: Path, error: OSError) -> UnreadableError:
    """The sentence about an event log that is there and cannot be read."""
    return UnreadableError(f"session {path.parent.name}: {path.name} cannot be read ({error.strerror})")


def damaged(path: Path, line: int, why: str) -> DamageError:
    """The sentence about a line of an event log that cannot be read."""
    return DamageError(
        f"session {path.parent.name}: {path.name}:{line} is damaged ({why}), and only what stands before that line is "
        "known; put back a copy of the file, or clear the session out"
    )


def _event(line: bytes, path: Path, place: ReadPosition) -> Event:
    try:
        plain = _plain(line, place.seal)
        kind = plain["event"]
        if place.lines == 0:
            place.schema = _schema(plain, path)
        if place.schema is None:
            raise ValueError("no event 'session' stands before it")
        seal = seal_of(line)
        if seal is None and is_sealed(place.schema):
            raise ValueError("it has no checksum")
        place.seal = seal or 0
        return _checked(kind, migrated(plain, place.schema) if kind in _MIGRATED else plain)
    except WRONG as error:
        raise damaged(path, place.lines + 1, f"{error}") from None


def _plain(line: bytes, seal: int) -> Facts:
    if seal_of(line) is not None and not holds(line, seal):
        raise ValueError("its checksum is not that of its bytes and of the lines before it")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON" if b"\0" not in line else "there are zeros in it") from None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        raise TypeError("it is no event")
    return found


def _schema(plain: Facts, path: Path) -> int:
    if plain["event"] != "session":
        raise ValueError("an event log begins with an event 'session'")
    return check_schema(plain.get("schema"), path.parent.name)


def _checked(kind: str, facts: Facts) -> Event:
    """Check an event; unknown keys and events, which later versions may write, pass."""
    if kind == "record":
        return Event(kind, facts, plain_record(facts))
    why = kinds.wrong(facts, _NEEDED.get(kind, {}), {**_EVERY, **_OPTIONAL.get(kind, {})})
    if not why and kind == "session":
        why = kinds.wrong(facts["design"], _DESIGN, {})
    if why:
        raise ValueError(f"of its event {kinds.shown(kind)} {why}")
    return Event(kind, facts)
