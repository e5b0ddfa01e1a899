"""Index one session's event logs, and detect by their stamps that they have changed."""

from __future__ import annotations

import calendar
import contextlib
import json
import math
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pytest_ipperf.core.portable.errors import DamageError, LabError, UsageError
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey, commit_of
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store.index.tables import seal
from pytest_ipperf.store.log import validators as valid
from pytest_ipperf.store.log.events import Event, ReadPosition, UnreadableError, read_events
from pytest_ipperf.store.log.migration import Facts
from pytest_ipperf.store.session_reader import event_logs_in, missing, not_listed

_BATCH = 500
_NAME = re.compile(r"\d{8}T\d{6}Z")
"""Beginning of the name of a session's folder; other files beside those folders are ignored."""


class FileStamp(NamedTuple):
    """State of a file when it was read: its size, and its modification time (nanoseconds since 1970)."""

    size: int
    changed_ns: int


_NEVER = FileStamp(-1, -1)
"""Stamp of a file that must be read again each time."""


def stamp_of(path: Path) -> FileStamp:
    """Return the stamp of a file; if it is missing or inaccessible, a stamp that no file has."""
    try:
        status = path.stat()
    except OSError:
        return FileStamp(-1, 0)
    return FileStamp(status.st_size, status.st_mtime_ns)


def stamps_of(folder: Path) -> dict[str, FileStamp]:
    """Return the stamps of a session's event logs by name; FileNotFoundError if its folder is gone."""
    if not os.path.lexists(folder):
        raise FileNotFoundError(2, "No such file or directory", str(folder))
    with contextlib.suppress(OSError):  # reading reports it
        return {path.name: stamp_of(path) for path in event_logs_in(folder)}
    return {}


def folders_in(runs: Path) -> Iterator[Path]:
    """Iterate over the folders of sessions, and over other files named like one, which shows that a session was there.

    Names that are not UTF-8 are ignored.
    """
    try:
        with os.scandir(runs) as scan:
            entries = [each for each in scan if valid.key(each.name)]
    except FileNotFoundError:
        return
    except OSError as error:
        raise LabError(f"records: {runs} cannot be read ({error.strerror})") from error
    for each in entries:
        with contextlib.suppress(OSError):
            if each.is_dir():
                yield Path(each.path)
                continue
        if _NAME.match(each.name):
            yield Path(each.path)


class SessionIndexer:
    """Writer of one session, `number` in the index, from its `folder`."""

    def __init__(self, base: sqlite3.Connection, words: dict[str, int], number: int, folder: Path) -> None:
        self._db, self._words, self._number, self._folder = base, words, number, folder
        ((began_at, schema),) = base.execute("SELECT began_at, schema FROM session WHERE id = ?", (number,)).fetchall()
        self._began_at: float = math.inf if began_at is None else began_at
        self._known = schema is not None
        self._files: dict[str, int] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._runs: dict[str, list[int]] = {}

    def read_log(self, name: str, position: ReadPosition, stamp: FileStamp) -> None:
        """Index the events after `position`, where the last reading ended, and record what cannot be read."""
        try:
            for event in read_events(self._folder / name, position):
                self._apply(event, position)
        except UnreadableError as error:
            self._record_trouble(str(error))
            stamp = _NEVER
        except (DamageError, UsageError) as error:
            self._record_trouble(str(error))
        self._db.execute(
            "INSERT OR REPLACE INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            (
                self._number,
                name,
                position.at,
                position.lines,
                position.checksum,
                position.schema,
                position.partial_line,
                *stamp,
            ),
        )

    def finish(self) -> None:
        """Write waiting rows, count cells and runs, and record missing files."""
        self._write()
        self._db.executemany(
            "INSERT INTO run_count VALUES (?, ?, ?, ?, NULL) ON CONFLICT DO UPDATE SET "
            "runs = runs + excluded.runs, hit = hit + excluded.hit",
            [(self._number, self._word(cell), *counts) for cell, counts in self._runs.items()],
        )
        self._db.execute("DELETE FROM tally WHERE session = ?", (self._number,))
        self._db.execute(
            "INSERT INTO tally SELECT session, text, count(*), NULL FROM past JOIN word ON word.id = verdict "
            "WHERE session = ? GROUP BY text",
            (self._number,),
        )
        for error in missing(self._folder, self._files):
            self._record_trouble(str(error))
        if not self._known:
            self._record_trouble(self._missing_session_reason())
        # If the beginning cannot be read, the name gives the time, so that the session is sorted correctly.
        self._db.execute(
            "UPDATE session SET began_at = ? WHERE id = ? AND began_at IS NULL AND trouble != ''",
            (_began_by_name(self._folder), self._number),
        )
        self._db.execute(
            "UPDATE session SET measured = (SELECT count(DISTINCT cell) FROM past JOIN key ON key.id = past.key "
            "WHERE past.session = session.id) WHERE id = ?",
            (self._number,),
        )
        self._db.execute(
            "UPDATE session SET cells = (SELECT count(*) FROM past WHERE session = id) WHERE id = ?", (self._number,)
        )
        seal(self._db, "session", "id = ?", self._number)
        for table in ("journal", "tally", "run_count", "past"):
            seal(self._db, table, "session = ?", self._number)

    def _missing_session_reason(self) -> str:
        """Return why no event log describes the session; empty if it may just have begun.

        Other files are written once it has begun to measure; before that there may be an empty event log.
        """
        try:
            if self._folder.is_dir() and all(path.suffix == ".jsonl" for path in self._folder.iterdir()):
                return ""
        except FileNotFoundError:  # the session is being cleared out
            raise
        except OSError as error:
            return str(not_listed(self._folder, error))
        return f"session {self._folder.name} has no records: no event log in it begins with an event 'session'"

    def _record_trouble(self, trouble: str) -> None:
        """Record the first trouble of the session, which is where a person begins to look."""
        self._db.execute("UPDATE session SET trouble = ? WHERE id = ? AND trouble = ''", (trouble, self._number))

    def _apply(self, event: Event, position: ReadPosition) -> None:
        if event.record is not None:
            self._record(event.record)
        elif event.kind == "session":
            self._session(event.facts, position)
        elif event.kind == "run" and not event.facts["warmup"]:
            counts = self._runs.setdefault(f"{event.facts['workload']}-{event.facts['arm']}", [0, 0])
            counts[0] += 1
            counts[1] += any(event.facts["failed"].values())
        elif event.kind == "end":
            self._files.update(event.facts.get("files", {}))
            missing_items = len(event.facts["missing"]) if "missing" in event.facts else None
            facts = (event.facts["status"], event.facts["seconds"], missing_items, self._number)
            self._db.execute("UPDATE session SET status = ?, seconds = ?, missing = ? WHERE id = ?", facts)
        elif event.kind == "plan":
            planned = len(set(event.facts["items"].values()))
            self._db.execute("UPDATE session SET planned = ? WHERE id = ?", (planned, self._number))
        elif event.kind in ("undecided", "trouble"):
            column = "undecided" if event.kind == "undecided" else "troubles"
            self._db.execute(f"UPDATE session SET {column} = {column} + 1 WHERE id = ?", (self._number,))  # noqa: S608

    def _session(self, facts: Facts, position: ReadPosition) -> None:
        """Index an event `session`; every process writes the same one, and the session began with the earliest."""
        self._began_at = min(self._began_at, facts["at"])
        if not self._known:
            self._known = True
            values = (facts["design"]["name"], facts["saved"], facts["pytest_ipperf"], commit_of(facts))
            self._db.execute(
                "UPDATE session SET design = ?, saved = ?, version = ?, revision = ?, arguments = ?, schema = ? "
                "WHERE id = ?",
                (*values, json.dumps(facts["arguments"]), position.schema, self._number),
            )
        self._db.execute("UPDATE session SET began_at = ? WHERE id = ?", (self._began_at, self._number))

    def _record(self, record: Record) -> None:
        entries = (part.history_entry(self._folder.name, self._began_at) for part in record.parts())
        self._rows += [self._row(entry, record) for entry in entries]
        if len(self._rows) >= _BATCH:
            self._write()

    def _row(self, entry: HistoryEntry, record: Record) -> tuple[Any, ...]:
        return (
            self._number, self._key(entry.key), entry.change, entry.sd_epoch, entry.epochs, entry.test_value,
            entry.reference_value, self._word(entry.margin), entry.margin_fraction, entry.header_cost,
            self._word(entry.verdict), self._word(entry.fingerprint), entry.usable, self._word(record.taken_from),
        )  # fmt: skip

    def _write(self) -> None:
        self._db.executemany(
            "INSERT INTO past VALUES (?,?,?,?,?,?,?,?,?,?,?,?,1,?,?,NULL) ON CONFLICT DO UPDATE SET "
            "change=excluded.change, sd_epoch=excluded.sd_epoch, epochs=excluded.epochs, "
            "test_value=excluded.test_value, reference_value=excluded.reference_value, margin=excluded.margin, "
            "margin_fraction=excluded.margin_fraction, header_cost=excluded.header_cost, verdict=excluded.verdict, "
            "fingerprint=excluded.fingerprint, usable=excluded.usable, taken_from=excluded.taken_from "
            # Of several questions about one cell, the strictest is kept.
            "WHERE coalesce(excluded.margin_fraction, 1e9) <= coalesce(past.margin_fraction, 1e9)",
            self._rows,
        )
        self._rows = []

    def _key(self, key: HistoryKey) -> int:
        added = self._db.execute("INSERT OR IGNORE INTO key (cell, metric, version) VALUES (?, ?, ?)", key).rowcount
        ((number,),) = self._db.execute(
            "SELECT id FROM key WHERE cell = ? AND metric = ? AND version = ?", key
        ).fetchall()
        if added:
            seal(self._db, "key", "id = ?", number)
        return int(number)

    def _word(self, text: str) -> int:
        if text not in self._words:
            added = self._db.execute("INSERT OR IGNORE INTO word (text) VALUES (?)", (text,)).rowcount
            ((number,),) = self._db.execute("SELECT id FROM word WHERE text = ?", (text,)).fetchall()
            if added:
                seal(self._db, "word", "id = ?", number)
            self._words[text] = number
        return self._words[text]


def _began_by_name(folder: Path) -> float:
    """Return when a session began, by the name of its folder; else when the folder last changed."""
    with contextlib.suppress(ValueError, OverflowError):
        return float(calendar.timegm(time.strptime(folder.name[:16], "%Y%m%dT%H%M%SZ")))
    return folder.lstat().st_mtime
