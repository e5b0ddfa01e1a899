"""Tables of the index; opening its file for writing or read-only, and rebuilding a damaged one."""

from __future__ import annotations

import contextlib
import marshal
import os
import sqlite3
import zlib
from pathlib import Path

from pytest_ipperf.store.log.migration import SCHEMA

VERSION = 100 * SCHEMA + 10
"""Version of the tables; tables of another version are made anew."""

_WAIT_S = 10.0
_MARSHAL = 2
"""Last marshal format whose bytes depend on values alone; later ones also encode which objects are shared."""
# Changed pages stay in memory until the end of a transaction, as spilling them would lock out all readers.
_PRAGMAS = ("page_size = 8192", "cache_size = -65536", "cache_spill = OFF")
_CANNOT = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY,
}  # fmt: skip
_TABLES = (
    """CREATE TABLE session (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, began_at REAL, seconds REAL, status INTEGER,
    design TEXT DEFAULT '', saved TEXT DEFAULT '', version TEXT DEFAULT '', revision TEXT DEFAULT '',
    arguments TEXT DEFAULT '[]',
    schema INTEGER, trouble TEXT DEFAULT '', troubles INTEGER DEFAULT 0, undecided INTEGER DEFAULT 0, light INTEGER,
    measured INTEGER DEFAULT 0, planned INTEGER, missing INTEGER, cells INTEGER DEFAULT 0, seal INTEGER)""",
    "CREATE INDEX session_by_name ON session (saved, began_at, name)",
    """CREATE TABLE journal (
    session INTEGER, name TEXT, upto INTEGER, lines INTEGER, seal_of_line INTEGER, schema INTEGER, half INTEGER,
    size INTEGER, changed_ns INTEGER, seal INTEGER, PRIMARY KEY (session, name)) WITHOUT ROWID""",
    "CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT UNIQUE NOT NULL, seal INTEGER)",
    """CREATE TABLE key (
    id INTEGER PRIMARY KEY, cell TEXT, metric TEXT, version TEXT, seal INTEGER, UNIQUE (cell, metric, version))""",
    """CREATE TABLE past (
    session INTEGER, key INTEGER, change REAL, sd_epoch REAL, epochs INTEGER, test_value REAL, reference_value REAL,
    margin INTEGER, margin_fraction REAL, header_cost REAL, verdict INTEGER, fingerprint INTEGER, sound INTEGER,
    usable INTEGER, taken_from INTEGER, seal INTEGER, PRIMARY KEY (session, key)) WITHOUT ROWID""",
    "CREATE INDEX past_by_key ON past (key, session)",
    """CREATE TABLE tally (
    session INTEGER, verdict TEXT, cells INTEGER, seal INTEGER, PRIMARY KEY (session, verdict)) WITHOUT ROWID""",
    """CREATE TABLE run_count (
    session INTEGER, cell INTEGER, runs INTEGER, hit INTEGER, seal INTEGER, PRIMARY KEY (session, cell))
    WITHOUT ROWID""",
    """CREATE TABLE night (
    name TEXT PRIMARY KEY, session TEXT, saved TEXT, began_at REAL, marked INTEGER, size INTEGER,
    changed_ns INTEGER, seal INTEGER) WITHOUT ROWID""",
)
_COLUMNS = {
    "session": "id, name, began_at, seconds, status, design, saved, version, revision, arguments, schema, trouble, "
    "troubles, undecided, light, measured, planned, missing, cells",
    "journal": "session, name, upto, lines, seal_of_line, schema, half, size, changed_ns",
    "word": "id, text",
    "key": "id, cell, metric, version",
    "past": "session, key, change, sd_epoch, epochs, test_value, reference_value, margin, margin_fraction, "
    "header_cost, verdict, fingerprint, sound, usable, taken_from",
    "tally": "session, verdict, cells",
    "run_count": "session, cell, runs, hit",
    "night": "name, session, saved, began_at, marked, size, changed_ns",
}
"""Columns that the seal of a row covers, as a page with flipped bits may still be a valid page."""

INTACT = "intact(past.seal, " + ", ".join(f"past.{name}" for name in _COLUMNS["past"].split(", ")) + ")"
"""Condition in a query that verifies the rows of cells, of which there are too many to verify beforehand."""


def seal(base: sqlite3.Connection, table: str, where: str, *values: object) -> None:
    """Seal rows of a table with their current values."""
    base.execute(f"UPDATE {table} SET seal = seal({_COLUMNS[table]}) WHERE {where}", values)  # noqa: S608 - of our names


def check_rows(base: sqlite3.Connection) -> None:
    """Raise sqlite3.Error if a row was altered or is missing; the rows of cells are not checked."""
    try:
        for table, columns in _COLUMNS.items():
            if table != "past":
                _check_table(base, table, columns)
    except UnicodeDecodeError:
        raise damage("a row is not text") from None
    counted = "SELECT coalesce(sum(tally.cells), 0) FROM tally WHERE tally.session = session.id"
    if base.execute(f"SELECT 1 FROM session WHERE cells != ({counted})").fetchall():  # noqa: S608 - of our names
        raise damage("rows are missing")


def _check_table(base: sqlite3.Connection, table: str, columns: str) -> None:
    if base.execute(f'PRAGMA integrity_check("{table}")').fetchall() != [
        ("ok",)
    ]:  # compares the table with its indices
        raise damage("a table and its index differ")
    base.execute(f"SELECT count(*) FROM {table} WHERE NOT intact(seal, {columns})").fetchall()  # noqa: S608


def damage(why: str) -> sqlite3.DatabaseError:
    """Return the error of a damaged file."""
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def why(error: sqlite3.Error) -> str:
    """Return an error's reason for a sentence."""
    return "a row has changed since it was written" if "user-defined function" in str(error) else str(error)


def _row_seal(*values: str | float | bytes | None) -> int:
    return zlib.crc32(marshal.dumps(values, _MARSHAL))


def _intact(kept: object, *values: str | float | bytes | None) -> bool:
    if kept != _row_seal(*values):
        raise ValueError
    return True


def _with_functions(base: sqlite3.Connection) -> sqlite3.Connection:
    base.create_function("seal", -1, _row_seal, deterministic=True)
    base.create_function("intact", -1, _intact, deterministic=True)
    return base


def is_refused(error: sqlite3.Error) -> bool:
    """Return whether the disk, its permissions or another process prevent access; otherwise the file is damaged."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _CANNOT


def opened(path: Path) -> sqlite3.Connection:
    """Open the file with current tables for writing; sqlite3.Error if that fails, with a reason given by `why`."""
    base = _with_functions(sqlite3.connect(path, timeout=_WAIT_S))
    try:
        for pragma in _PRAGMAS:
            base.execute(f"PRAGMA {pragma}")
        base.execute("BEGIN IMMEDIATE")  # fails here if the file cannot be written
        if version_of(base) != VERSION:
            _make_tables(base)
        base.commit()
    except UnicodeDecodeError:  # raised by a message of SQLite that contains the name of a table
        base.close()
        raise damage("the name of a table is not text") from None
    except sqlite3.Error:
        base.close()
        raise
    return base


def open_read_only(path: Path) -> sqlite3.Connection | None:
    """Open the file read-only; None if it is missing, unreadable, or has tables of another version."""
    if not os.access(path, os.R_OK):
        return None
    with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
        base = _with_functions(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_S))
        if _asked_version(base) == VERSION:
            return base
    return None


def in_memory(of: sqlite3.Connection | None = None) -> sqlite3.Connection:
    """Return a database in memory, with the content of another one if given."""
    base = _with_functions(sqlite3.connect(":memory:"))
    if of is None:
        _make_tables(base)
        base.commit()
    else:
        of.backup(base)
    return base


def remove(path: Path) -> None:
    """Remove the file and the remains of an interrupted transaction, which would corrupt the next file."""
    for each in (path, *path.parent.glob(f"{path.name}-*")):
        each.unlink(missing_ok=True)


def _asked_version(base: sqlite3.Connection) -> int:
    """Return the version as `version_of` does; close the database if it is unreadable or another one."""
    try:
        version = version_of(base)
    except sqlite3.Error:
        base.close()
        raise
    if version != VERSION:
        base.close()
    return version


def version_of(base: sqlite3.Connection) -> int:
    """Return the version of the tables; 0 for an empty file."""
    ((version,),) = base.execute("PRAGMA user_version").fetchall()
    return int(version)


def _make_tables(base: sqlite3.Connection) -> None:
    """Replace all tables in one transaction: another process that has the file open sees the new ones or none."""
    for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        base.execute(f'DROP TABLE "{name}"')
    for table in _TABLES:
        base.execute(table)
    base.execute(f"PRAGMA user_version = {VERSION}")
