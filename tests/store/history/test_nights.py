"""Nights, as their verdicts describe them to later nights."""

from __future__ import annotations

import contextlib
import json
import shutil

import pytest

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.store import Archive
from pytest_ipperf.store.history import nights
from pytest_ipperf.store.index import index as index_module
from tests.store.kept import BEGAN, keep, name_of, record

CELLS = [
    {"cell": "a", "metric": "loss", "version": "1-10x", "ruling": "within"},
    {"cell": "b", "metric": "loss", "version": "1-10x", "ruling": "missing"},
]
KEYS = (HistoryKey("a", "loss", "1-10x"), HistoryKey("b", "loss", "1-10x"))


def rule(root, name, began_at, **more):
    """Write a verdict of the night of that name."""
    verdict = {"session": name, "saved": "main", "began_at": began_at, "status": 12, "cells": CELLS} | more
    folder = root / "nights" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "verdict.json").write_text(json.dumps(verdict))


def before(archive, number, saved="main"):
    """Return the name of the last night before the session of that day."""
    found = archive.last_night(saved, before=name_of(number))
    return found.name if found else None


def last_night(root, saved="main", *, number):
    """Return the archive's last night for the session of that day."""
    with contextlib.closing(Archive(root)) as archive:
        return archive.last_night(saved, before=name_of(number)), archive.notes


@pytest.fixture
def root(tmp_path):
    """Make four nights saved as `main`, a day apart, and one more session."""
    for number in range(5):
        keep(tmp_path, number, [record(1)], saved="main")
    for number in range(4):
        rule(tmp_path, name_of(number), BEGAN + 86400 * number)
    return tmp_path


def test_the_next_night_is_told_which_cells_and_versions_the_last_one_had(root):
    rule(root, name_of(3), BEGAN + 3 * 86400, saved="other")
    found, notes = last_night(root, number=4)
    assert (found.name, found.cells, notes) == (name_of(2), KEYS, [])
    assert last_night(root, number=0) == (None, [])
    with contextlib.closing(Archive(root)) as archive:
        assert archive.last_night("main") == found
    assert last_night(root, "other", number=4)[0].name == name_of(3)


def test_the_last_night_is_the_last_to_begin_whatever_its_name_says(root):
    """Names are out of order where the clock was set; one session was cleared out."""
    rule(root, "19990101T000000Z-aa", BEGAN + 3.5 * 86400)
    assert last_night(root, number=4)[0].name == "19990101T000000Z-aa"
    rule(root, "19990101T000000Z-aa", BEGAN - 86400)
    (root / "index.sqlite").unlink()
    assert last_night(root, number=4)[0].name == name_of(3)


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        ("nonsense", "it is not JSON"),
        ("[]", "it is not an object"),
        (
            '{"session": "NAME", "saved": "main", "status": 0, "cells": [{"cell": "a"}]}',
            "of a cell it has no 'metric'",
        ),
        (
            '{"session": "NAME", "saved": "main", "status": 13, "cells": []}',
            "'status' cannot be 13",
        ),
    ],
    ids=["nonsense", "list", "lacking", "status"],
)
def test_a_verdict_that_cannot_be_read_is_said_and_stops_the_next_night(root, verdict, why):
    """Otherwise a cell that the unreadable night measured and this one did not would not be missed."""
    path = root / "nights" / name_of(3) / "verdict.json"
    path.write_text(verdict.replace("NAME", name_of(3)))
    remedy = "put back a copy of it, or remove the night's folder"
    said = f"night {name_of(3)}: {path} is not a verdict ({why}); {remedy}"
    for _ in range(2):
        with contextlib.closing(Archive(root)) as archive:
            assert archive.notes == [said]
            with pytest.raises(LabError) as refused:
                archive.last_night("main", before=name_of(4))
            assert str(refused.value).startswith(f"{said}; the cells that must be measured again")
            with pytest.raises(LabError):
                archive.last_night("main")
            assert before(archive, 4, "other") is None
            assert before(archive, 3) == name_of(2)
    rule(root, name_of(3), BEGAN + 86400 * 3)
    found, notes = last_night(root, number=4)
    assert (found.name, notes) == (name_of(3), [])


def test_a_verdict_that_cannot_be_read_with_another_behind_it_is_only_said(root):
    path = root / "nights" / name_of(1) / "verdict.json"
    path.unlink()
    path.mkdir()
    found, notes = last_night(root, number=4)
    assert found.name == name_of(3)
    assert notes == [f"night {name_of(1)}: {path} cannot be read (Is a directory)"]


def test_a_night_is_read_once_also_where_its_session_was_cleared_out(root, monkeypatch):
    Archive(root).close()
    for number in range(3):
        shutil.rmtree(root / "runs" / name_of(number))
    Archive(root).close()
    read: list[str] = []
    one = nights.read_night

    def counted(root, name):
        read.append(name)
        return one(root, name)

    monkeypatch.setattr(nights, "read_night", counted)
    with contextlib.closing(Archive(root)) as archive:
        assert (len(archive.sessions()), read) == (2, [])
        assert before(archive, 3) == name_of(2)
    (root / index_module.FILE).unlink()
    for _ in range(2):
        Archive(root).close()
    assert sorted(read) == [name_of(number) for number in range(4)]
    keep(root, 1, [record(1)], saved="main")  # it comes back
    with contextlib.closing(Archive(root)) as archive:
        assert [entry.gate_status for entry in archive.sessions()] == [12, 12, None]
    assert len(read) == 5


def test_a_night_whose_verdict_was_removed_is_none(root):
    rule(root, name_of(2), BEGAN + 2 * 86400, status=11)
    Archive(root).close()
    for number in (2, 3):
        shutil.rmtree(root / "nights" / name_of(number))
    with contextlib.closing(Archive(root)) as archive:
        assert [entry.gate_status for entry in archive.sessions()] == [12, 12, None, None, None]
        assert [past.sound for past in archive.histories(name_of(4), saved="main")[record(1).key]] == [True] * 4
        assert before(archive, 4) == name_of(1)


def test_a_session_without_an_end_is_damaged_as_long_as_its_night_tells_of_one(tmp_path):
    name = name_of(0)
    keep(tmp_path, 0, [record(1)], saved="main", status=None)
    sentence = (
        f"session {name} has no end, and its night had one; put back a copy of its files, or clear the session out"
    )
    assert last_night(tmp_path, number=0)[1] == []
    rule(tmp_path, name, BEGAN)
    assert last_night(tmp_path, number=0)[1] == [sentence]
    shutil.rmtree(tmp_path / "nights" / name)
    assert last_night(tmp_path, number=0)[1] == []


def test_a_night_that_says_that_its_records_could_not_be_kept_accuses_none(tmp_path):
    keep(tmp_path, 0, [record(1)], saved="main", status=None)
    lost = {"nodeid": "records", "sentence": "records: runs cannot be written (No space left on device)"}
    rule(tmp_path, name_of(0), BEGAN, troubles=[lost])
    with contextlib.closing(Archive(tmp_path)) as archive:
        assert archive.notes == []
        (entry,) = archive.sessions()
        assert (entry.gate_status, len(archive.history_entries(entry))) == (12, 1)
