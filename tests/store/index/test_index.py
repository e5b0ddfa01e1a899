"""The index: it reads new lines once, and queries no more rows than needed."""

from __future__ import annotations

import dataclasses
import sqlite3
import sys
from collections import Counter

import pytest

from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.store import Archive, EventLog
from pytest_ipperf.store.index import tables
from pytest_ipperf.store.index.index import FILE, Index
from pytest_ipperf.store.index.tables import opened
from pytest_ipperf.store.index.update import SessionIndexer
from pytest_ipperf.store.log import events
from tests.store.kept import facts, keep, name_of, record

CELLS, NIGHTS = 200, 20
SEAL = 553712732


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """Make 200 cells in each of 20 nights."""
    root = tmp_path_factory.mktemp("year")
    plain = [dataclasses.replace(record(1), cell=f"lab-{number:03d}") for number in range(CELLS)]
    for number in range(NIGHTS):
        keep(root, number, plain, saved="main")
    Archive(root).close()
    return root


@pytest.fixture
def counted(year, monkeypatch):
    """Return the archive, and how many rows and queries were needed since it was opened."""
    archive = Archive(year)
    counts: Counter[str] = Counter()
    ask = archive._index.query

    def count(question, *values):
        found = ask(question, *values)
        counts.update(questions=1, rows=len(found))
        return found

    monkeypatch.setattr(archive._index, "query", count)
    yield archive, counts
    archive.close()


def test_a_list_reads_sessions_and_no_cells(counted):
    archive, counts = counted
    assert len(archive.sessions()) == NIGHTS
    assert counts == {"questions": 2, "rows": 2 * NIGHTS}


def test_a_comparison_reads_the_cells_of_two_sessions(counted):
    archive, counts = counted
    for name in ("last", "last~10"):
        assert len(archive.history_entries(archive.find(name))) == CELLS
    assert counts == {"questions": 6, "rows": 2 * (2 * NIGHTS + CELLS)}


def test_a_course_reads_the_sessions_of_its_cell(counted):
    archive, counts = counted
    (key,) = archive.keys("lab-123")
    assert len(archive.history(key)) == NIGHTS
    assert counts == {"questions": 2, "rows": 1 + NIGHTS}


def test_courses_of_a_session_are_a_question_for_each_earlier_one(counted):
    archive, counts = counted
    assert len(archive.histories(name_of(NIGHTS - 1), saved="main")) == CELLS
    words = len({"", record(1).margin, record(1).verdict, record(1).fingerprint})
    assert counts == {"questions": 2 + NIGHTS, "rows": words + CELLS + (NIGHTS - 1) * (1 + CELLS)}


@pytest.mark.parametrize("question", ["_OF_SESSION", "_OF_KEY", "_OF_KEYS", "_ORIGINS"])
def test_no_table_of_cells_is_read_from_end_to_end(year, question):
    """Check SQLite's query plan: a SCAN of a table that grows with cells and nights would be slow after a year."""
    from pytest_ipperf.store import archive as archive_module  # noqa: PLC0415 - for its questions

    text = getattr(archive_module, question)
    base = opened(year / FILE)
    plan = [row[-1] for row in base.execute(f"EXPLAIN QUERY PLAN {text}", ("x",) * text.count("?")).fetchall()]
    base.close()
    scans = [step for step in plan if step.startswith("SCAN") and "json_each" not in step]
    assert scans == [], plan


def test_what_was_read_is_not_read_again(year, monkeypatch):
    def fail(*_):
        pytest.fail("nothing is new")

    monkeypatch.setattr(SessionIndexer, "read_log", fail)
    before = (year / FILE).read_bytes()
    Archive(year).close()
    assert (year / FILE).read_bytes() == before


def test_only_what_a_journal_has_gained_is_read(tmp_path, monkeypatch):
    read: list[int] = []
    read_line = events._event

    def counted(line, path, position):
        read.append(position.at)
        return read_line(line, path, position)

    monkeypatch.setattr(events, "_event", counted)
    event_log = EventLog(tmp_path / "runs" / name_of(0), "main")
    event_log.append("session", facts(0))
    for number in range(5):
        event_log.append("record", record(1, cell=f"lab-{number}").to_plain())
        index = Index(tmp_path)
        assert index.query("SELECT count(*) FROM past") == [(number + 1,)]
        index.close()
    assert len(read) == len(set(read)) == 6
    event_log.close()


def test_workers_of_one_session_are_read_together(tmp_path):
    for writer, cells in (("gw0", ["a"]), ("gw1", ["b", "c"]), ("main", ["a"])):
        event_log = EventLog(tmp_path / "runs" / name_of(0), writer)
        event_log.append("session", facts(0))
        for cell in cells:
            event_log.append("record", record(1, cell=cell).to_plain())
        event_log.append("undecided", {"nodeid": writer, "sentence": "so"})
        event_log.close()
    archive = Archive(tmp_path)
    (entry,) = archive.sessions()
    assert (entry.verdicts, entry.troubles) == ({"within": 3}, 3)
    assert sorted(key.cell for key in archive.history_entries(entry)) == ["a", "b", "c"]
    archive.close()


def test_who_catches_up_at_the_same_time_counts_nothing_twice(tmp_path, monkeypatch):
    """Another process has read all of a session between the first look at it and its turn."""
    keep(tmp_path, 0, [record(1)], troubles={"failed": "x"})
    Archive(tmp_path).close()
    keep(tmp_path, 1, [record(1)], troubles={"failed": "x", "inconclusive": "y"})
    read = Index._read
    nested: list[object] = []

    def with_another(self, folder):
        if not nested:
            nested.append(folder)
            Archive(tmp_path).close()
        read(self, folder)

    monkeypatch.setattr(Index, "_read", with_another)
    archive = Archive(tmp_path)
    assert [entry.troubles for entry in archive.sessions()] == [1, 2]
    archive.close()
    assert len(nested) == 1


def test_two_that_make_the_tables_at_the_same_time_make_them_once(tmp_path, monkeypatch):
    path = tmp_path / FILE
    connect = sqlite3.connect
    nested: list[object] = []

    def with_another(*arguments, **more):
        base = connect(*arguments, **more)
        if not nested:
            nested.append(path)
            opened(path).close()
        return base

    monkeypatch.setattr(sqlite3, "connect", with_another)
    base = opened(path)
    assert base.execute("SELECT count(*) FROM past").fetchall() == [(0,)]
    base.close()


def test_while_another_process_writes_the_index_all_is_told_the_same(tmp_path, monkeypatch):
    keep(tmp_path, 0, [record(1)])
    Archive(tmp_path).close()
    keep(tmp_path, 1, [record(1)])
    monkeypatch.setattr("pytest_ipperf.store.index.tables._WAIT_S", 0.1)
    other = sqlite3.connect(tmp_path / FILE)
    other.execute("BEGIN IMMEDIATE")
    archive = Archive(tmp_path)
    assert archive.notes == [
        (
            f"index: {tmp_path}/{FILE} cannot be written (database is locked); new records are read into memory for "
            "this time"
        )
    ]
    assert len(archive.history(HistoryKey(record(1).cell, "response_time", "1-apache-ipv4"))) == 2
    archive.close()
    other.close()
    archive = Archive(tmp_path)
    assert (archive.notes, len(archive.sessions())) == ([], 2)
    archive.close()


def test_the_seal_of_a_row_is_that_of_its_values_alone():
    """The seal must not depend on whether Python shares objects, which differs between processes, or on its version."""
    word = b"a b c".decode()  # an object of its own
    rows = [(7, 0.1, None, "", "a b c", "a b c"), (7, 0.1, None, "", word, sys.intern("a b c"))]
    assert {tables._row_seal(*row) for row in rows} == {SEAL}
    assert len({tables._row_seal(*row) for row in ((1, "1"), ("1", 1), (1.0, "1"), (1, None), (1,))}) == 5
