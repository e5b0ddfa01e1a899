"""The archive: sessions by name, their findings, and the history of a cell."""

import contextlib
import json
from typing import Any

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.store import Archive, EventLog, read_session_summary, records_in
from pytest_ipperf.store.index.index import FILE
from tests.store.kept import BEGAN, SUITE, facts, keep, name_of, record, single

ONE, TWO = (HistoryKey(record(number).cell, "response_time", "1-apache-ipv4") for number in (1, 2))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Make five sessions, of which the last was broken off; two are saved as `main`."""
    root = tmp_path_factory.mktemp("archive")
    keep(root, 0, [record(1), record(2)], saved="main")
    keep(root, 1, [record(1, 1.01), record(2, 1.3)], saved="main", troubles={"failed": f"{SUITE}::test_x"}, status=1)
    keep(root, 2, [record(1, 1.02), record(1, 1.02, margin="5%")])
    keep(root, 3, [single(1)], troubles={"inconclusive": f"{SUITE}::test_y"})
    keep(root, 4, [record(2, 1.05, workload_version="2")], status=None)
    return root


@pytest.fixture
def archive(root):
    found = Archive(root)
    yield found
    assert found.notes == []
    found.close()


def test_all_sessions_are_there_the_oldest_first(archive, root):
    entries = archive.sessions()
    assert [entry.name for entry in entries] == [name_of(number) for number in range(5)]
    assert [entry.verdicts for entry in entries] == [
        {"within": 2},
        {"within": 1, "exceeds": 1},
        {"within": 1},
        {"unjudged": 1},
        {"within": 1},
    ]
    assert [entry.troubles for entry in entries] == [0, 1, 0, 1, 0]
    assert [entry.status for entry in entries] == [0, 1, 0, 0, None]
    first = entries[0]
    assert (first.began_at, first.seconds, first.design, first.saved) == (BEGAN, 61.5, "nightly", "main")
    assert (first.version, first.arguments, first.folder) == ("0.1", ("suites",), root / "runs" / name_of(0))
    assert [entry.name for entry in archive.sessions("main")] == [name_of(0), name_of(1)]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("last", 4),
        ("last~0", 4),
        ("last~4", 0),
        ("main", 1),
        (name_of(2), 2),
        ("20261124", 2),
        (f"x/runs/{name_of(3)}", 3),
    ],
)
def test_a_session_is_found_by_what_a_person_calls_it(archive, name, number):
    assert archive.find(name).name == name_of(number)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("last~5", "session 'last~5' does not exist; there are 5"),
        ("2026112", f"session '2026112' could be any of {name_of(0)}, {name_of(1)}, {name_of(2)}; give more of it"),
        (
            "mian",
            (
                "session 'mian' does not exist in {root}; there are 5, the last is "
                f"{name_of(4)}; last, main or the beginning of a session's name is right"
            ),
        ),
        ("", "session '' does not exist in {root}; there are 5, "),
    ],
)
def test_a_session_that_is_not_there_is_told_with_what_is(archive, root, name, said):
    with pytest.raises(UsageError) as raised:
        archive.find(name)
    assert str(raised.value).startswith(said.format(root=root))


def test_what_a_session_found_is_as_its_records_have_it(archive):
    entry = archive.find("main")
    assert archive.history_entries(entry) == {
        each.key: each.history_entry(entry.name, entry.began_at) for each in (record(1, 1.01), record(2, 1.3))
    }


def test_of_several_questions_about_a_cell_the_strictest_stays(archive):
    (past,) = archive.history_entries(archive.find("last~2")).values()
    assert (past.margin, past.margin_fraction) == ("5%", 0.05)


def test_the_course_of_a_cell_is_that_of_its_own_version(archive):
    assert [past.session for past in archive.history(ONE)] == [name_of(number) for number in range(4)]
    assert [past.session for past in archive.history(TWO)] == [name_of(0), name_of(1)]
    assert [past.session for past in archive.history(ONE, most=2)] == [name_of(2), name_of(3)]
    assert [past.session for past in archive.history(ONE, saved="main")] == [name_of(0), name_of(1)]
    assert archive.history(HistoryKey("nowhere", "loss")) == []


def test_courses_are_those_of_each_cell_of_a_session(tmp_path):
    for number in range(4):
        keep(tmp_path, number, [record(1), record(2)][: 1 + number % 2], saved="main" if number != 1 else "")
    keep(tmp_path, 4, [record(1), record(2)], saved="other")
    with contextlib.closing(Archive(tmp_path)) as archive:
        for most, sessions in ((60, [0, 2, 3]), (2, [2, 3])):
            found = archive.histories(name_of(4), saved="main", most=most)
            assert {key: [past.session for past in history] for key, history in found.items()} == {
                ONE: [name_of(number) for number in sessions],
                TWO: [name_of(3)],
            }
            assert found[ONE] == [past for past in archive.history(ONE, saved="main") if past in found[ONE]]
        assert archive.histories(name_of(0), saved="main") == archive.histories("nowhere", saved="main") == {}


# --- what a night is held to ------------------------------------------------------------------------------------------


def held_to(root, number, **more):
    """Return the sessions that the gate compares the first cell of that day's session with."""
    with contextlib.closing(Archive(root)) as archive:
        found = archive.nights(name_of(number), saved="main", **more).get(ONE, [])
        assert archive.notes == []
    return [past.session for past in found]


def rule(root, number, status=0, red=()):
    """End the night of that day."""
    cells = [{"cell": key.cell, "metric": key.metric, "ruling": "exceeds"} for key in red]
    verdict = {"session": name_of(number), "saved": "main", "status": status, "cells": cells}
    folder = root / "nights" / name_of(number)
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(json.dumps(verdict | {"began_at": BEGAN + 86400 * number}))


def test_a_history_has_the_commits_that_its_sessions_kept(tmp_path):
    kept: tuple[dict[str, Any], ...] = (
        {},
        {"commit": 40 * "a", "dirty": True},
        {"commit": 40 * "b"},
        {"dirty": False},
    )
    for number, own in enumerate(kept):
        keep(tmp_path, number, [record(1)], saved="main", **own)
    commits = ["", f"{40 * 'a'}-dirty", 40 * "b"]
    with contextlib.closing(Archive(tmp_path)) as archive:
        (history,) = archive.histories(name_of(3), saved="main").values()
        assert [each.commit for each in history] == commits
        assert [each.commit for each in archive.history(ONE)] == [*commits, ""]


def test_a_night_is_held_to_nights_that_have_a_verdict(tmp_path):
    """A night that was broken off does not count, nor does a session of plain pytest saved under the same name."""
    for number in range(4):
        keep(tmp_path, number, [record(1)], saved="main", status=None if number == 1 else 0)
    rule(tmp_path, 0)
    rule(tmp_path, 3)
    assert held_to(tmp_path, 3) == [name_of(0)]


def test_what_was_taken_over_counts_once_and_never_for_who_took_it(tmp_path):
    keep(tmp_path, 0, [record(1)], saved="main", status=None)  # broken off
    taken = record(1, taken_from=name_of(0))
    for number in (1, 2, 3):  # the night that went on with it, and two more that did
        keep(tmp_path, number, [taken], saved="main")
        rule(tmp_path, number)
    keep(tmp_path, 4, [record(1)], saved="main")
    assert held_to(tmp_path, 4) == [name_of(3)]
    assert held_to(tmp_path, 3) == []
    event_log = EventLog(tmp_path / "runs" / name_of(0), "main")
    event_log.append("end", {"status": 0, "seconds": 1})
    event_log.close()
    rule(tmp_path, 0)
    assert held_to(tmp_path, 3) == []


def test_the_last_nights_are_the_last_that_count_and_the_last_of_all(tmp_path):
    for number in range(9):
        reasons = ("too_few_epochs",) if number == 5 else ()
        keep(tmp_path, number, [record(1, reasons=reasons), record(2)], saved="main")
    for number in range(8):
        rule(
            tmp_path, number, red=[ONE] if number in (4, 7) else [], status=11 if number == 6 else int(number in (4, 7))
        )
    assert held_to(tmp_path, 8, most=3) == [name_of(number) for number in (1, 2, 3, 7)]
    with contextlib.closing(Archive(tmp_path)) as archive:
        found = archive.nights(name_of(8), saved="main")
        assert [(past.sound, past.usable) for past in found[ONE]] == [(True, True)] * 4 + [(False, True)]
        assert [past.session for past in found[TWO]] == [name_of(number) for number in (0, 1, 2, 3, 4, 5, 7)]
        assert [past.usable for past in archive.histories(name_of(8), saved="main")[ONE]].index(False) == 5


def test_a_session_began_with_the_first_of_its_journals_whichever_was_seen_first(tmp_path):
    """Otherwise a session would be part of its own history if its first event log by name is not the oldest."""
    keep(tmp_path, 0, [record(1)], saved="main")
    rule(tmp_path, 0)
    folder = keep(tmp_path, 1, [record(1)], saved="main")
    Archive(tmp_path).close()
    for writer, at in (("gw0", BEGAN + 90000.0), ("zz", BEGAN + 86000.0)):
        event_log = EventLog(folder, writer)
        event_log.append("session", facts(1, saved="main", at=at))
        event_log.close()
    rule(tmp_path, 1)
    with contextlib.closing(Archive(tmp_path)) as archive:
        assert archive.find("last").began_at == BEGAN + 86000 == read_session_summary(folder).began_at
    assert held_to(tmp_path, 1) == [name_of(0)]


def test_cells_are_found_by_their_text(archive):
    assert archive.keys("c1-") == [ONE]
    assert archive.keys("http") == [ONE, TWO, TWO._replace(version="2")]
    assert archive.keys("c1_") == []


def test_a_folder_elsewhere_is_read_without_an_index(tmp_path):
    folder = keep(tmp_path, 0, [record(1), record(2)])
    assert records_in(folder) == [record(1), record(2)]
    assert not (tmp_path / FILE).exists()


def test_without_any_session_there_is_nothing_and_no_file(tmp_path):
    archive = Archive(tmp_path)
    assert (archive.sessions(), archive.notes, list(tmp_path.iterdir())) == ([], [], [])
    with pytest.raises(UsageError, match=r"^there is no session in .*/runs yet$"):
        archive.find("last")
    archive.close()


def test_a_night_marks_what_no_later_one_is_compared_with(tmp_path):
    for number in range(3):
        keep(tmp_path, number, [record(1), record(2)], saved="main")
    Archive(tmp_path).close()  # what is in the index already is marked too
    cells = [
        {"cell": key.cell, "metric": key.metric, "ruling": "exceeds" if key == ONE else "within"} for key in (ONE, TWO)
    ]
    for number, status in ((1, 1), (2, 11)):
        verdict = {"session": name_of(number), "saved": "main", "status": status, "cells": cells}
        folder = tmp_path / "nights" / name_of(number)
        folder.mkdir(parents=True)
        (folder / "verdict.json").write_text(json.dumps(verdict))
    for _ in range(2):
        archive = Archive(tmp_path)
        assert [entry.gate_status for entry in archive.sessions()] == [None, 1, 11]
        assert [past.sound for past in archive.history(ONE)] == [True, False, False]
        assert [past.sound for past in archive.history(TWO)] == [True, True, False]
        archive.close()
        # What was marked stays marked when the session is read on, and when it comes back from elsewhere.
        event_log = EventLog(tmp_path / "runs" / name_of(1), "main")
        event_log.append("end", {"status": 0, "seconds": 1})
        event_log.close()
    moved = (tmp_path / "runs" / name_of(1)).rename(tmp_path / "elsewhere")
    archive = Archive(tmp_path)
    assert len(archive.history(ONE)) == 2
    archive.close()
    moved.rename(tmp_path / "runs" / name_of(1))
    archive = Archive(tmp_path)
    assert [past.sound for past in archive.history(ONE)] == [True, False, False]
    archive.close()
