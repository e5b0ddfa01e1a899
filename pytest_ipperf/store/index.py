"""The index: a SQLite file over the journals of all sessions, so that years of nights are asked in a moment.

It holds nothing of its own: whoever removes it loses the time of making it again. What journals have gained since it
was last asked is read first, so that a session that runs or was killed is in it up to its last whole line.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.past import Key
from pytest_ipperf.core.record import Record
from pytest_ipperf.store.migration import SCHEMA, check_schema, migrated
from pytest_ipperf.store.nights import nights_in
from pytest_ipperf.store.reading import parsed

FILE = "index.sqlite"
_VERSION = 100 * SCHEMA + 1
"""Of its tables; one of another version is made anew."""
_WAIT_S = 10.0
_BATCH = 500
_WANTED = tuple(b'{"event": "%s"' % kind for kind in (b"session", b"record", b"undecided", b"trouble", b"end"))

_TABLES = """
CREATE TABLE session (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, began_at REAL, seconds REAL, status INTEGER,
    design TEXT DEFAULT '', saved TEXT DEFAULT '', seed INTEGER, version TEXT DEFAULT '', arguments TEXT DEFAULT '[]',
    schema INTEGER, trouble TEXT DEFAULT '', troubles INTEGER DEFAULT 0, undecided INTEGER DEFAULT 0, light INTEGER);
CREATE INDEX session_by_name ON session (saved, began_at);
CREATE TABLE journal (
    session INTEGER, name TEXT, upto INTEGER, PRIMARY KEY (session, name)) WITHOUT ROWID;
CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT UNIQUE NOT NULL);
CREATE TABLE key (
    id INTEGER PRIMARY KEY, cell TEXT, metric TEXT, version TEXT, UNIQUE (cell, metric, version));
CREATE TABLE past (
    session INTEGER, key INTEGER, change REAL, sd_epoch REAL, epochs INTEGER, test_value REAL, reference_value REAL,
    margin INTEGER, margin_fraction REAL, header_cost REAL, verdict INTEGER, fingerprint INTEGER, sound INTEGER,
    journal TEXT, at INTEGER, PRIMARY KEY (session, key)) WITHOUT ROWID;
CREATE INDEX past_by_key ON past (key, session);
CREATE TABLE tally (session INTEGER, verdict TEXT, cells INTEGER, PRIMARY KEY (session, verdict)) WITHOUT ROWID;
CREATE TABLE night (name TEXT PRIMARY KEY, session INTEGER) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the index has of a session.

    `seconds` and `status` (pytest's) are None where it has not ended, or not in order. `verdicts` counts its cells by
    verdict, `troubles` the items without an answer. `trouble` says why its records cannot be read, else empty. `light`
    is the status of the night of which it is the screening.
    """

    name: str
    folder: Path
    began_at: float
    seconds: float | None
    status: int | None
    design: str
    saved: str
    version: str
    arguments: tuple[str, ...]
    verdicts: Mapping[str, int]
    troubles: int
    trouble: str
    light: int | None


class Index:
    """Opened over the folder of records `root`; LabError nowhere: what the disk refuses is a sentence in `notes`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []
        self._words: dict[str, int] = {}
        self._base = self._opened()
        try:
            self._catch_up()
        except sqlite3.OperationalError as error:
            self.notes.append(f"index: {root / FILE} is not up to date ({error}); the records are whole")
        except sqlite3.DatabaseError as error:
            self._base.close()
            self.notes.append(f"index: {root / FILE} was damaged ({error}) and is made anew from the records")
            (root / FILE).unlink(missing_ok=True)
            self._base = self._opened()
            self._catch_up()

    def close(self) -> None:
        """Closes the file."""
        self._base.close()

    def ask(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that answer a question in SQL."""
        return self._base.execute(question, values).fetchall()

    # --- opening ------------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        """The file; where it cannot be written what is there of it, else one in memory for this time."""
        path = self.root / FILE
        if not (self.root / "runs").is_dir():
            return _with_tables(sqlite3.connect(":memory:"))
        try:
            return _current(path)
        except sqlite3.OperationalError as error:
            why = str(error)
        except sqlite3.DatabaseError:
            self.notes.append(f"index: {path} is no index and is made anew from the records")
            path.unlink()
            return _current(path)
        if os.access(path, os.R_OK) and path.stat().st_size:
            return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=_WAIT_S)
        self.notes.append(f"index: {path} cannot be written ({why}); it is made in memory for this time")
        return _with_tables(sqlite3.connect(":memory:"))

    # --- catching up --------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        known = {name: number for number, name in self.ask("SELECT id, name FROM session")}
        upto: dict[int, dict[str, int]] = {}
        for number, name, end in self.ask("SELECT session, name, upto FROM journal"):
            upto.setdefault(number, {})[name] = end
        there = {folder.name: folder for folder in _folders(self.root / "runs")}
        for name in known.keys() - there.keys():
            self._forget(known[name])
        for name, folder in sorted(there.items()):
            number = known.get(name)
            journals = {path.name: path.stat().st_size for path in sorted(folder.glob("*.jsonl"))}
            if number is None or any(size > upto.get(number, {}).get(each, 0) for each, size in journals.items()):
                self._read(folder, number, upto.get(number or 0, {}))
        self._mark_nights()

    def _forget(self, number: int) -> None:
        with self._base:
            for table in ("past", "journal", "tally"):
                self._base.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608 - of our names
            self._base.execute("DELETE FROM session WHERE id = ?", (number,))

    def _read(self, folder: Path, number: int | None, upto: Mapping[str, int]) -> None:
        """What the journals of a session have gained, in one transaction."""
        with self._base:
            self._base.execute("BEGIN IMMEDIATE")
            if number is None:
                told = self._base.execute("INSERT OR IGNORE INTO session (name) VALUES (?)", (folder.name,))
                if not told.rowcount:  # another process was quicker
                    return
                number = told.lastrowid or 0
            reading = _Reading(self._base, self._words, number)
            try:
                for path in sorted(folder.glob("*.jsonl")):
                    reading.journal(path, upto.get(path.name, 0))
                reading.finish()
            except UsageError as error:
                self._base.execute("UPDATE session SET trouble = ? WHERE id = ?", (str(error), number))

    def _mark_nights(self) -> None:
        """What the nights found worse, with which later ones are not compared."""
        for night in nights_in(self.root, but={name for (name,) in self.ask("SELECT name FROM night")}):
            found = self.ask("SELECT id FROM session WHERE name = ?", night.session)
            if not found:
                continue
            ((number,),) = found
            with self._base:
                self._base.execute("INSERT OR IGNORE INTO night VALUES (?, ?)", (night.name, number))
                self._base.execute("UPDATE session SET light = ? WHERE id = ?", (night.light, number))
                if not night.believed:
                    self._base.execute("UPDATE past SET sound = 0 WHERE session = ?", (number,))
                self._base.executemany(
                    "UPDATE past SET sound = 0 WHERE session = ? AND key IN "
                    "(SELECT id FROM key WHERE cell = ? AND metric = ?)",
                    [(number, cell, metric) for cell, metric in night.red],
                )


class _Reading:
    """One session's journals on their way into the index."""

    def __init__(self, base: sqlite3.Connection, words: dict[str, int], number: int) -> None:
        self._base, self._words, self._number = base, words, number
        ((name, schema, began_at),) = base.execute(
            "SELECT name, schema, began_at FROM session WHERE id = ?", (number,)
        ).fetchall()
        self._name, self._schema, self._began_at = name, schema, began_at
        self._rows: list[tuple[Any, ...]] = []

    def journal(self, path: Path, start: int) -> None:
        """From byte `start` on, where the last reading ended."""
        at = start
        with path.open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written, or its writer was killed
                if line.startswith(_WANTED):
                    event = parsed(line)
                    if event is None:
                        break
                    self._take(event, path.name, at)
                at += len(line)
        self._base.execute("INSERT OR REPLACE INTO journal VALUES (?, ?, ?)", (self._number, path.name, at))

    def finish(self) -> None:
        """Writes what is waiting, and counts."""
        self._write()
        self._base.execute("DELETE FROM tally WHERE session = ?", (self._number,))
        self._base.execute(
            "INSERT INTO tally SELECT session, text, count(*) FROM past JOIN word ON word.id = verdict "
            "WHERE session = ? GROUP BY text",
            (self._number,),
        )

    def _write(self) -> None:
        self._base.executemany(
            "INSERT INTO past VALUES (?,?,?,?,?,?,?,?,?,?,?,?,1,?,?) ON CONFLICT DO UPDATE SET "
            "change=excluded.change, sd_epoch=excluded.sd_epoch, epochs=excluded.epochs, "
            "test_value=excluded.test_value, reference_value=excluded.reference_value, margin=excluded.margin, "
            "margin_fraction=excluded.margin_fraction, header_cost=excluded.header_cost, verdict=excluded.verdict, "
            "fingerprint=excluded.fingerprint, journal=excluded.journal, at=excluded.at "
            # Of several questions about one cell the strictest stays.
            "WHERE coalesce(excluded.margin_fraction, 1e9) <= coalesce(past.margin_fraction, 1e9)",
            self._rows,
        )
        self._rows = []

    def _take(self, event: Mapping[str, Any], journal: str, at: int) -> None:
        kind = event["event"]
        if kind == "session":
            self._session(event)
            return
        if self._schema is None:
            raise UsageError(f"session {self._name} has records, and no event 'session' before them")
        if kind == "record":
            self._record(record_of(event, self._schema), journal, at)
        elif kind == "end":
            facts = (event["status"], event["seconds"], self._number)
            self._base.execute("UPDATE session SET status = ?, seconds = ? WHERE id = ?", facts)
        else:
            column = "undecided" if kind == "undecided" else "troubles"
            self._base.execute(f"UPDATE session SET {column} = {column} + 1 WHERE id = ?", (self._number,))  # noqa: S608

    def _session(self, event: Mapping[str, Any]) -> None:
        """Each process of a session says the same of it."""
        if self._schema is not None:
            return
        self._schema = check_schema(event.get("schema"), self._name)
        told = migrated(event, self._schema)
        self._began_at = told["at"]
        self._base.execute(
            "UPDATE session SET began_at = ?, design = ?, saved = ?, seed = ?, version = ?, arguments = ?, schema = ? "
            "WHERE id = ?",
            (
                told["at"], told["design"]["name"], told["saved"], told["seed"], told["pytest_ipperf"],
                json.dumps(told["arguments"]), self._schema, self._number,
            ),
        )  # fmt: skip

    def _record(self, record: Record, journal: str, at: int) -> None:
        past = record.past(self._name, self._began_at)
        self._rows.append(
            (
                self._number, self._key(past.key), past.change, past.sd_epoch, past.epochs, past.test_value,
                past.reference_value, self._word(past.margin), past.margin_fraction, past.header_cost,
                self._word(past.verdict), self._word(past.fingerprint), journal, at,
            )
        )  # fmt: skip
        if len(self._rows) >= _BATCH:
            self._write()

    def _key(self, key: Key) -> int:
        self._base.execute("INSERT OR IGNORE INTO key (cell, metric, version) VALUES (?, ?, ?)", key)
        ((number,),) = self._base.execute(
            "SELECT id FROM key WHERE cell = ? AND metric = ? AND version = ?", key
        ).fetchall()
        return int(number)

    def _word(self, text: str) -> int:
        if text not in self._words:
            self._base.execute("INSERT OR IGNORE INTO word (text) VALUES (?)", (text,))
            ((number,),) = self._base.execute("SELECT id FROM word WHERE text = ?", (text,)).fetchall()
            self._words[text] = number
        return self._words[text]


def record_of(event: Mapping[str, Any], schema: int) -> Record:
    """The record of an event that holds one."""
    plain = {name: value for name, value in migrated(event, schema).items() if name not in ("event", "at")}
    return Record.from_plain(plain)


def _folders(runs: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError), os.scandir(runs) as found:
        yield from (Path(each.path) for each in found if each.is_dir())


def _current(path: Path) -> sqlite3.Connection:
    """The file with today's tables, and write access to it, so that who may not write learns it here."""
    base = sqlite3.connect(path, timeout=_WAIT_S)
    try:
        ((version,),) = base.execute("PRAGMA user_version").fetchall()
        if version != _VERSION:
            base.close()
            if version:
                path.unlink()
            base = sqlite3.connect(path, timeout=_WAIT_S)
            base.execute("PRAGMA page_size = 8192")
            return _with_tables(base)
        base.execute("BEGIN IMMEDIATE")
        base.rollback()
    except sqlite3.Error:
        base.close()
        raise
    return base


def _with_tables(base: sqlite3.Connection) -> sqlite3.Connection:
    base.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version = {_VERSION};COMMIT;")
    return base
