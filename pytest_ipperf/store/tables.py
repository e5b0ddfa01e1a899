"""The file of the index: its tables, and how it is opened by who may write it, who may not, and who finds it spoilt."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from pytest_ipperf.store.migration import SCHEMA

VERSION = 100 * SCHEMA + 4
"""Of the tables; those of another version are made anew."""

_WAIT_S = 10.0
# Pages that a transaction has changed stay in memory up to its end: who spills them shuts all readers out.
_PRAGMAS = ("page_size = 8192", "cache_size = -65536", "cache_spill = OFF")
_CANNOT = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY,
}  # fmt: skip
_TABLES = (
    """CREATE TABLE session (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, began_at REAL, seconds REAL, status INTEGER,
    design TEXT DEFAULT '', saved TEXT DEFAULT '', version TEXT DEFAULT '', arguments TEXT DEFAULT '[]',
    schema INTEGER, trouble TEXT DEFAULT '', troubles INTEGER DEFAULT 0, undecided INTEGER DEFAULT 0, light INTEGER,
    measured INTEGER DEFAULT 0, planned INTEGER, missing INTEGER)""",
    "CREATE INDEX session_by_name ON session (saved, began_at, name)",
    "CREATE TABLE journal (session INTEGER, name TEXT, upto INTEGER, PRIMARY KEY (session, name)) WITHOUT ROWID",
    "CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT UNIQUE NOT NULL)",
    """CREATE TABLE key (
    id INTEGER PRIMARY KEY, cell TEXT, metric TEXT, version TEXT, UNIQUE (cell, metric, version))""",
    """CREATE TABLE past (
    session INTEGER, key INTEGER, change REAL, sd_epoch REAL, epochs INTEGER, test_value REAL, reference_value REAL,
    margin INTEGER, margin_fraction REAL, header_cost REAL, verdict INTEGER, fingerprint INTEGER, sound INTEGER,
    usable INTEGER, taken_from INTEGER, PRIMARY KEY (session, key)) WITHOUT ROWID""",
    "CREATE INDEX past_by_key ON past (key, session)",
    "CREATE TABLE tally (session INTEGER, verdict TEXT, cells INTEGER, PRIMARY KEY (session, verdict)) WITHOUT ROWID",
    """CREATE TABLE night (
    name TEXT PRIMARY KEY, session TEXT, saved TEXT, began_at REAL, marked INTEGER) WITHOUT ROWID""",
)


def cannot(error: sqlite3.Error) -> bool:
    """Whether it is the disk, its rights or another process that refuses; else the file is not what it should be."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _CANNOT


def opened(path: Path) -> sqlite3.Connection:
    """The file with today's tables, for writing; sqlite3.Error where that cannot be, `cannot` tells why."""
    base = sqlite3.connect(path, timeout=_WAIT_S)
    try:
        for pragma in _PRAGMAS:
            base.execute(f"PRAGMA {pragma}")
        base.execute("BEGIN IMMEDIATE")  # who may not write learns it here
        if version_of(base) != VERSION:
            _make_tables(base)
        base.commit()
    except sqlite3.Error:
        base.close()
        raise
    return base


def opened_to_read(path: Path) -> sqlite3.Connection | None:
    """The file as it is; None where it is not there, cannot be read, or has other tables than today's."""
    if not os.access(path, os.R_OK):
        return None
    with contextlib.suppress(sqlite3.Error):
        base = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_S)
        if _asked_version(base) == VERSION:
            return base
    return None


def in_memory(of: sqlite3.Connection | None = None) -> sqlite3.Connection:
    """Tables that nobody keeps; with what is in others, if there are any."""
    base = sqlite3.connect(":memory:")
    if of is None:
        _make_tables(base)
        base.commit()
    else:
        of.backup(base)
    return base


def remove(path: Path) -> None:
    """Removes the file, and what a transaction that was broken off has left of it, which would spoil the next one."""
    for each in (path, *path.parent.glob(f"{path.name}-*")):
        each.unlink(missing_ok=True)


def _asked_version(base: sqlite3.Connection) -> int:
    """As `version_of`; closes what cannot tell it, or tells another one."""
    try:
        version = version_of(base)
    except sqlite3.Error:
        base.close()
        raise
    if version != VERSION:
        base.close()
    return version


def version_of(base: sqlite3.Connection) -> int:
    """Of the tables; 0 of an empty file."""
    ((version,),) = base.execute("PRAGMA user_version").fetchall()
    return int(version)


def _make_tables(base: sqlite3.Connection) -> None:
    """In place of what is there: another process that has the file open sees the new ones or none."""
    for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        base.execute(f'DROP TABLE "{name}"')
    for table in _TABLES:
        base.execute(table)
    base.execute(f"PRAGMA user_version = {VERSION}")
