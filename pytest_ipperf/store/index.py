"""The index: a SQLite file over the journals of all sessions, so that years of nights are asked in a moment.

It holds nothing of its own: whoever removes it loses the time of making it again. What journals have gained since it
was last asked is read first, so that a session that runs or was killed is in it up to its last whole line.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.core.errors import LabError, UsageError
from pytest_ipperf.core.extent import Extent, state_of
from pytest_ipperf.core.past import Key
from pytest_ipperf.core.record import Record
from pytest_ipperf.store.journal import is_being_written
from pytest_ipperf.store.migration import check_schema, migrated
from pytest_ipperf.store.nights import VERDICT, Night, nights_in
from pytest_ipperf.store.reading import parsed
from pytest_ipperf.store.records import WRONG, checked, plain_record
from pytest_ipperf.store.tables import cannot, in_memory, opened, opened_to_read, remove

FILE = "index.sqlite"
_BATCH = 500
_BEGINS, _ENDS = b'{"event": "', b"}\n"
_WANTED = tuple(_BEGINS + kind for kind in (b'session"', b'plan"', b'record"', b'undecided"', b'trouble"', b'end"'))
_NEVER = 1 << 60
"""Up to where a journal is read that is not read any further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the index has of a session.

    `seconds` and `status` (pytest's) are None where it has not ended, or not in order. `verdicts` counts its cells by
    verdict, `troubles` the items without an answer. `trouble` says what of its records cannot be read, if anything.
    `light` is the status of the night of which it is the screening. `tells_end` is False of records that were written
    before sessions kept that. `measured` of `planned` cells have a record, and so many items are `missing` at its end;
    both None where that was not kept.
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
    tells_end: bool
    measured: int
    planned: int | None
    missing: int | None

    @property
    def extent(self) -> Extent:
        """How far it came, by what the index has of it and by who writes its records; `missing` items are not named."""
        running = self.status is None and is_being_written(self.folder)
        state = state_of(self.status, self.missing, running=running, tells_end=self.tells_end)
        return Extent(state=state, measured=self.measured, planned=self.planned)


class Index:
    """Opened over the folder of records `root`. `notes` are sentences about a disk that refuses, and about damage.

    `unread` has one about each night whose verdict cannot be read, by its name.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []
        self.unread: dict[str, str] = {}
        self._words: dict[str, int] = {}
        self._refused: sqlite3.Error | None = None
        self._base = self._opened()
        try:
            self._catch_up()
        except sqlite3.Error as error:
            self._go_on(error)

    def close(self) -> None:
        """Closes the file."""
        self._base.close()

    def ask(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that answer a question in SQL; LabError where the file cannot be read."""
        try:
            return self._rows(question, *values)
        except sqlite3.ProgrammingError:  # a fault of ours
            raise
        except sqlite3.Error as error:  # the rest of it was not looked at before
            self._go_on(error)
        try:
            return self._rows(question, *values)
        except sqlite3.Error as error:
            raise LabError(f"index: {self.root / FILE} cannot be read ({error}); remove it") from error

    def _rows(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._base.execute(question, values).fetchall()

    # --- opening ------------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        """The file; where it cannot be written what is there of it, else one in memory for this time."""
        path = self.root / FILE
        if not (self.root / "runs").is_dir():
            return in_memory()
        try:
            return opened(path)
        except sqlite3.Error as error:
            if not cannot(error):
                return self._anew(error)
            self._refused = error
            found = opened_to_read(path)
            if found is None:
                self.notes.append(f"index: {path} cannot be written ({error}); it is made in memory for this time")
            return found or in_memory()

    def _anew(self, error: sqlite3.Error) -> sqlite3.Connection:
        """An empty one in place of what is damaged."""
        path = self.root / FILE
        self.notes.append(f"index: {path} was damaged ({error}) and is made anew from the records")
        self._words.clear()
        try:
            remove(path)
            return opened(path)
        except (OSError, sqlite3.Error) as again:
            self.notes.append(f"index: {path} cannot be written ({again}); it is made in memory for this time")
            return in_memory()

    def _go_on(self, error: sqlite3.Error) -> None:
        """Without what was damaged, or without the disk."""
        if not hasattr(error, "sqlite_errorcode"):  # a fault of ours, which no other file would mend
            raise error
        path = self.root / FILE
        before = self._base
        if cannot(error):
            why = self._refused or error
            self.notes.append(f"index: {path} cannot be written ({why}); what is new is read for this time only")
            self._words.clear()
            try:
                self._base = in_memory(before)
                before.close()
                self._catch_up()
            except sqlite3.Error as damage:
                error = damage
            else:
                return
        self._base.close()
        self._base = self._anew(error)
        self._catch_up()

    # --- catching up --------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        known = {name: number for number, name in self._rows("SELECT id, name FROM session")}
        upto: dict[int, dict[str, int]] = {}
        for number, name, end in self._rows("SELECT session, name, upto FROM journal"):
            upto.setdefault(number, {})[name] = end
        there = {folder.name: folder for folder in _folders(self.root / "runs")}
        for name in known.keys() - there.keys():
            self._forget(known[name])
        for name, folder in sorted(there.items()):
            ends = upto.get(known.get(name, 0), {})
            try:
                if name not in known or any(_has_more(path, ends.get(path.name, 0)) for path in _journals(folder)):
                    self._read(folder)
            except FileNotFoundError:  # somebody clears out
                continue
            except OSError as error:
                self.notes.append(f"session {name}: {error.filename} cannot be read ({error.strerror})")
        self._mark_nights()

    def _forget(self, number: int) -> None:
        with self._base:
            self._base.execute(
                "UPDATE night SET marked = 0 WHERE session = (SELECT name FROM session WHERE id = ?)", (number,)
            )
            for table in ("past", "journal", "tally"):
                self._base.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608 - of our names
            self._base.execute("DELETE FROM session WHERE id = ?", (number,))

    def _read(self, folder: Path) -> None:
        """What the journals of a session have gained, in one transaction: two processes may read at once."""
        with self._base:
            self._base.execute("BEGIN IMMEDIATE")
            self._base.execute("INSERT OR IGNORE INTO session (name) VALUES (?)", (folder.name,))
            ((number,),) = self._rows("SELECT id FROM session WHERE name = ?", folder.name)
            upto = dict(self._rows("SELECT name, upto FROM journal WHERE session = ?", number))
            reading = _Reading(self._base, self._words, number)
            for path in _journals(folder):
                reading.journal(path, upto.get(path.name, 0))
            reading.finish()

    def _mark_nights(self) -> None:
        """What the nights found worse, with which later ones are not compared; each is read once.

        That of a session which was cleared out is read again when the session comes back.
        """
        there = {path.parent.name for path in (self.root / "nights").glob(f"*/{VERDICT}")}
        known = self._rows(
            "SELECT night.name, marked, session.id FROM night LEFT JOIN session ON session.name = session"
        )
        for name, _, number in known:
            if name not in there:
                self._unmark(name, number)
        done = {name for name, marked, number in known if marked or number is None}
        self.unread = {}
        for night in nights_in(self.root, but=done, unread=self.unread):
            self._mark(night)

    def _unmark(self, name: str, number: int | None) -> None:
        """Without its verdict it is no night."""
        with self._base:
            self._base.execute("DELETE FROM night WHERE name = ?", (name,))
            self._base.execute("UPDATE session SET light = NULL WHERE id = ?", (number,))
            self._base.execute("UPDATE past SET sound = 1 WHERE session = ?", (number,))

    def _mark(self, night: Night) -> None:
        number = next((row[0] for row in self._rows("SELECT id FROM session WHERE name = ?", night.session)), None)
        with self._base:
            self._base.execute(
                "INSERT OR REPLACE INTO night VALUES (?, ?, ?, ?, ?)",
                (night.name, night.session, night.saved, night.began_at, number is not None),
            )
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
        self._name, self._schema = name, schema
        self._began_at: float = math.inf if began_at is None else began_at
        self._rows: list[tuple[Any, ...]] = []

    def journal(self, path: Path, start: int) -> None:
        """From byte `start` on, where the last reading ended; up to what cannot be read, which is said."""
        at = start
        with path.open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written, or its writer was killed
                try:
                    self._line(line, path.name, at)
                except UsageError as error:
                    self._say(str(error))
                    at = _NEVER
                    break
                at += len(line)
        self._base.execute("INSERT OR REPLACE INTO journal VALUES (?, ?, ?)", (self._number, path.name, at))

    def _line(self, line: bytes, journal: str, at: int) -> None:
        """Of lines that are not wanted, which are the most, only the ends are looked at."""
        damage = f"session {self._name}: {journal} is damaged at byte {at}; what stands before that is used"
        if not line.startswith(_WANTED):
            if not line.startswith(_BEGINS) or not line.endswith(_ENDS):
                raise UsageError(damage)
            return
        event = parsed(line)
        if event is None:
            raise UsageError(damage)
        try:
            self._take(event)
        except WRONG as error:
            raise UsageError(damage) from error

    def _say(self, trouble: str) -> None:
        self._base.execute("UPDATE session SET trouble = ? WHERE id = ?", (trouble, self._number))

    def finish(self) -> None:
        """Writes what is waiting, and counts."""
        self._write()
        self._base.execute("DELETE FROM tally WHERE session = ?", (self._number,))
        self._base.execute(
            "INSERT INTO tally SELECT session, text, count(*) FROM past JOIN word ON word.id = verdict "
            "WHERE session = ? GROUP BY text",
            (self._number,),
        )
        self._base.execute(
            "UPDATE session SET measured = (SELECT count(DISTINCT cell) FROM past JOIN key ON key.id = past.key "
            "WHERE past.session = session.id) WHERE id = ?",
            (self._number,),
        )

    def _write(self) -> None:
        self._base.executemany(
            "INSERT INTO past VALUES (?,?,?,?,?,?,?,?,?,?,?,?,1,?,?) ON CONFLICT DO UPDATE SET "
            "change=excluded.change, sd_epoch=excluded.sd_epoch, epochs=excluded.epochs, "
            "test_value=excluded.test_value, reference_value=excluded.reference_value, margin=excluded.margin, "
            "margin_fraction=excluded.margin_fraction, header_cost=excluded.header_cost, verdict=excluded.verdict, "
            "fingerprint=excluded.fingerprint, usable=excluded.usable, taken_from=excluded.taken_from "
            # Of several questions about one cell the strictest stays.
            "WHERE coalesce(excluded.margin_fraction, 1e9) <= coalesce(past.margin_fraction, 1e9)",
            self._rows,
        )
        self._rows = []

    def _take(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "session":
            self._session(event)
            return
        if self._schema is None:
            raise UsageError(f"session {self._name} has records, and no event 'session' before them")
        if kind == "record":
            self._record(plain_record(event, self._schema))
        elif kind == "plan":
            planned = len({checked(cell, "str") for cell in event["items"].values()})
            self._base.execute("UPDATE session SET planned = ? WHERE id = ?", (planned, self._number))
        elif kind == "end":
            missing = len(event["missing"]) if "missing" in event else None
            facts = (checked(event["status"], "int"), checked(event["seconds"], "float"), missing, self._number)
            self._base.execute("UPDATE session SET status = ?, seconds = ?, missing = ? WHERE id = ?", facts)
        else:
            column = "undecided" if kind == "undecided" else "troubles"
            self._base.execute(f"UPDATE session SET {column} = {column} + 1 WHERE id = ?", (self._number,))  # noqa: S608

    def _session(self, event: Mapping[str, Any]) -> None:
        """Each process of a session says the same of it; it began with the first of them."""
        first = self._schema is None
        self._schema = check_schema(event.get("schema"), self._name)
        self._began_at = min(self._began_at, checked(event["at"], "float"))
        if first:
            told = migrated(event, self._schema)
            self._base.execute(
                "UPDATE session SET design = ?, saved = ?, version = ?, arguments = ?, schema = ? WHERE id = ?",
                (
                    *(checked(each, "str") for each in (told["design"]["name"], told["saved"], told["pytest_ipperf"])),
                    json.dumps(told["arguments"]), self._schema, self._number,
                ),
            )  # fmt: skip
        self._base.execute("UPDATE session SET began_at = ? WHERE id = ?", (self._began_at, self._number))

    def _record(self, record: Record) -> None:
        past = record.past(self._name, self._began_at)
        self._rows.append(
            (
                self._number, self._key(past.key), past.change, past.sd_epoch, past.epochs, past.test_value,
                past.reference_value, self._word(past.margin), past.margin_fraction, past.header_cost,
                self._word(past.verdict), self._word(past.fingerprint), past.usable, self._word(record.taken_from),
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


def _folders(runs: Path) -> Iterator[Path]:
    try:
        with os.scandir(runs) as found:
            yield from (Path(each.path) for each in found if each.is_dir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise LabError(f"records: {runs} cannot be read ({error.strerror})") from error


def _journals(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _has_more(path: Path, upto: int) -> bool:
    """Whether there is a whole line that was not read; half of one is all that a killed session adds."""
    if path.stat().st_size <= upto:
        return False
    with path.open("rb") as file:
        file.seek(upto)
        return file.readline().endswith(b"\n")
