"""Index of sessions: an SQLite file over the event logs of all sessions, which makes queries over years of nights fast.

It holds no data of its own: if it is removed, it is rebuilt, which takes time. New lines of event logs are read when it
is opened, so that it includes a running or killed session up to its last whole line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.records.completeness import Completeness, state_of
from pytest_ipperf.store.history.nights import VERDICT, StoredNight, nights_in
from pytest_ipperf.store.index.tables import (
    check_rows,
    damage,
    in_memory,
    is_refused,
    open_read_only,
    opened,
    remove,
    seal,
    why,
)
from pytest_ipperf.store.index.update import FileStamp, SessionIndexer, folders_in, stamp_of, stamps_of
from pytest_ipperf.store.log.event_log import is_being_written
from pytest_ipperf.store.log.events import ReadPosition
from pytest_ipperf.store.log.migration import WITH_END

FILE = "index.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """The index's data of a session.

    `seconds` and `status` (pytest's) are None if it has not ended, or not in order. `verdicts` counts its cells by
    verdict, `troubles` the items without an answer. `trouble` says which of its records cannot be read, if any.
    `gate_status` is that of the night whose screening it is. `tells_end` is False for records written before sessions
    logged their end. `measured` of `planned` cells have a record, and `missing` items were left at its end; the last
    two are None if unknown. `partial_line` says that one of its event logs ends in a partial line, `running` that a
    process was writing its records when the index began to read them.
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
    gate_status: int | None
    tells_end: bool
    measured: int
    planned: int | None
    missing: int | None
    partial_line: bool
    running: bool

    @property
    def completeness(self) -> Completeness:
        """Progress of the session, from the index and open event logs, without the names of missing items."""
        running = self.status is None and (self.running or is_being_written(self.folder))
        state = state_of(self.status, self.missing, running=running, tells_end=self.tells_end or self.partial_line)
        return Completeness(state=state, measured=self.measured, planned=self.planned)


class Index:
    """The index of the folder of records `root`. `notes` are sentences about an unwritable disk, and about damage.

    `unread` maps each night whose verdict cannot be read to a sentence. `running` are the names of sessions without an
    end that a process was writing before they were read; such a session may have got its end since.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []
        self.unread: dict[str, str] = {}
        self.running: set[str] = set()
        self._words: dict[str, int] = {}
        self._refused: sqlite3.Error | None = None
        self._db = self._opened()
        try:
            check_rows(self._db)
            self._catch_up()
        except sqlite3.Error as error:
            self._recover(error)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def query(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of an SQL query; LabError if the file cannot be read."""
        try:
            return self._rows(question, *values)
        except sqlite3.ProgrammingError:  # a bug in the query
            raise
        except sqlite3.Error as error:  # opening does not check the whole file
            self._recover(error)
        try:
            return self._rows(question, *values)
        except sqlite3.Error as error:
            raise LabError(f"index: {self.root / FILE} cannot be read ({why(error)}); remove it") from error

    def rebuild(self) -> None:
        """Rebuild an index that lacks rows, which only the caller of a query can notice."""
        self._recover(damage("rows are missing"))

    def _rows(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(question, values).fetchall()
        except UnicodeDecodeError:
            raise damage("a row is not text") from None

    # --- opening ------------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        """Open the file; if it cannot be written, open it read-only, or else open an empty database in memory."""
        path = self.root / FILE
        if not (self.root / "runs").is_dir():
            return in_memory()
        try:
            return opened(path)
        except sqlite3.Error as error:
            if not is_refused(error):
                return self._rebuilt(error)
            self._refused = error
            database = open_read_only(path)
            if database is None:
                self.notes.append(f"index: {path} cannot be written ({error}); an index in memory is used instead")
            return database or in_memory()

    def _rebuilt(self, error: sqlite3.Error) -> sqlite3.Connection:
        """Return an empty database in place of the damaged one."""
        path = self.root / FILE
        self.notes.append(f"index: {path} was damaged ({why(error)}) and is rebuilt from the records")
        self._words.clear()
        try:
            remove(path)
            return opened(path)
        except (OSError, sqlite3.Error) as again:
            self.notes.append(f"index: {path} cannot be written ({again}); an index in memory is used instead")
            return in_memory()

    def _recover(self, error: sqlite3.Error) -> None:
        """Continue in memory after a disk error, or with a rebuilt file after damage."""
        if not hasattr(error, "sqlite_errorcode"):  # a bug, which a new file would not repair
            raise error
        path = self.root / FILE
        before = self._db
        if is_refused(error):
            why = self._refused or error
            self.notes.append(
                f"index: {path} cannot be written ({why}); new records are read into memory for this time"
            )
            self._words.clear()
            try:
                self._db = in_memory(before)
                before.close()
                self._catch_up()
            except sqlite3.Error as damage:
                error = damage
            else:
                return
        self._db.close()
        self._db = self._rebuilt(error)
        self._catch_up()

    # --- catching up --------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        rows = self._rows("SELECT id, name, status FROM session")
        known = {name: number for number, name, _ in rows}
        ended = {name for _, name, status in rows if status is not None}
        read: dict[int, dict[str, FileStamp]] = {}
        for number, name, *stamp in self._rows("SELECT session, name, size, changed_ns FROM journal"):
            read.setdefault(number, {})[name] = FileStamp(*stamp)
        folders = {folder.name: folder for folder in folders_in(self.root / "runs")}
        for name in known.keys() - folders.keys():
            with self._db:
                self._forget(known[name])
        self.running = {name for name in folders.keys() - ended if is_being_written(folders[name])}
        for name, folder in sorted(folders.items()):
            try:
                if name not in known or read.get(known[name], {}) != stamps_of(folder):
                    self._read(folder)
            except FileNotFoundError:  # the session is being cleared out
                continue
        self._mark_nights()

    def _forget(self, number: int) -> None:
        self._db.execute(
            "UPDATE night SET marked = 0 WHERE session = (SELECT name FROM session WHERE id = ?)", (number,)
        )
        seal(self._db, "night", "session = (SELECT name FROM session WHERE id = ?)", number)
        for table in ("past", "journal", "tally", "run_count"):
            self._db.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608 - of our names
        self._db.execute("DELETE FROM session WHERE id = ?", (number,))

    def _read(self, folder: Path) -> None:
        """Read new lines of a session's event logs, in one transaction, as two processes may read at once.

        If an event log has changed other than by growing while the session ran, all of them are read from the
        beginning.
        """
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            stamps = stamps_of(folder)
            rows = self._rows("SELECT id, status, trouble FROM session WHERE name = ?", folder.name)
            before = {} if not rows else self._event_logs(rows[0][0])
            seen = {name: stamp for name, (_, stamp) in before.items()}
            if rows and seen == stamps:  # another process has read it meanwhile
                return
            if rows and not _has_only_grown(rows[0], seen, stamps):
                self._forget(rows[0][0])
                before = {}
            self._db.execute("INSERT OR IGNORE INTO session (name) VALUES (?)", (folder.name,))
            ((number,),) = self._rows("SELECT id FROM session WHERE name = ?", folder.name)
            indexer = SessionIndexer(self._db, self._words, number, folder)
            for name, stamp in stamps.items():
                position, read = before.get(name, (ReadPosition(), None))
                if stamp != read:
                    indexer.read_log(name, position, stamp)
            indexer.finish()

    def _event_logs(self, number: int) -> dict[str, tuple[ReadPosition, FileStamp]]:
        rows = self._rows(
            "SELECT name, upto, lines, seal_of_line, schema, size, changed_ns FROM journal WHERE session = ?", number
        )
        return {
            name: (ReadPosition(*position), FileStamp(*stamp))
            for name, *position, stamp in ((*r[:5], r[5:]) for r in rows)
        }

    def _mark_nights(self) -> None:
        """Mark findings that nights judged worse, which later nights ignore; read each night once, or when it changes.

        The night of a session that was cleared out is read again when the session is put back.
        """
        stamps = {path.parent.name: stamp_of(path) for path in (self.root / "nights").glob(f"*/{VERDICT}")}
        known = self._rows(
            "SELECT night.name, marked, size, changed_ns, session.id FROM night "
            "LEFT JOIN session ON session.name = session"
        )
        done = set()
        for name, marked, size, changed_ns, number in known:
            if stamps.get(name) != FileStamp(size, changed_ns):
                self._unmark(name, number)
            elif marked or number is None:
                done.add(name)
        self.unread = {}
        for night in nights_in(self.root, but=done, unread=self.unread):
            self._mark(night, stamps.get(night.name, stamp_of(self.root / "nights" / night.name / VERDICT)))

    def _unmark(self, name: str, number: int | None) -> None:
        """Remove a night whose verdict is gone; its session may then lack an end."""
        with self._db:
            self._db.execute("DELETE FROM night WHERE name = ?", (name,))
            self._db.execute("UPDATE session SET light = NULL WHERE id = ?", (number,))
            self._db.execute(
                "UPDATE session SET trouble = '' WHERE id = ? AND trouble = ?", (number, _lost_its_end(name))
            )
            self._db.execute("UPDATE past SET sound = 1 WHERE session = ?", (number,))
            self._seal_session(number)

    def _mark(self, night: StoredNight, stamp: FileStamp) -> None:
        number = next((row[0] for row in self._rows("SELECT id FROM session WHERE name = ?", night.session)), None)
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO night VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (night.name, night.session, night.saved, night.began_at, number is not None, *stamp),
            )
            self._db.execute("UPDATE session SET light = ? WHERE id = ?", (night.gate_status, number))
            if not night.lost:
                self._db.execute(
                    "UPDATE session SET trouble = ? WHERE id = ? AND status IS NULL AND schema >= ? AND trouble = ''",
                    (_lost_its_end(night.session), number, WITH_END),
                )
            if not night.is_credible:
                self._db.execute("UPDATE past SET sound = 0 WHERE session = ?", (number,))
            self._db.executemany(
                "UPDATE past SET sound = 0 WHERE session = ? AND key IN "
                "(SELECT id FROM key WHERE cell = ? AND metric = ?)",
                [(number, cell, metric) for cell, metric in night.red],
            )
            seal(self._db, "night", "name = ?", night.name)
            self._seal_session(number)

    def _seal_session(self, number: int | None) -> None:
        seal(self._db, "session", "id = ?", number)
        seal(self._db, "past", "session = ?", number)


def _lost_its_end(session: str) -> str:
    """Return the sentence about a session without an end; a night decides only about sessions that have ended."""
    return (
        f"session {session} has no end, and its night had one; put back a copy of its files, or clear the session out"
    )


def _has_only_grown(
    row: tuple[int, int | None, str], before: Mapping[str, FileStamp], now: Mapping[str, FileStamp]
) -> bool:
    """Return whether event logs have only grown, in a session that had not ended and was not damaged."""
    _, status, trouble = row
    grown = all(name in now and (stamp == now[name] or stamp.size < now[name].size) for name, stamp in before.items())
    return grown and status is None and not trouble
