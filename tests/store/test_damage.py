"""A damaged folder of records: the messages, and what can still be read. docs/history.md describes the same."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.core.portable.errors import DamageError, LabError, UsageError
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.store import Archive, EventLog, is_being_written, read_session, read_session_summary, records_in
from pytest_ipperf.store.index.index import FILE, Index
from pytest_ipperf.store.index.tables import VERSION
from pytest_ipperf.store.log import events
from tests.store.kept import SUITE, facts, keep, name_of, record

ROOT = Path(__file__).parents[2]
NIGHTS = 4
ONE = HistoryKey(record(1).cell, "response_time", "1-apache-ipv4")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Make four nights of forty cells, with their index."""
    root = tmp_path_factory.mktemp("whole")
    one = record(1)
    for number in range(NIGHTS):
        cells = [record(1, cell=f"lab-{each:02d}", seed=number) for each in range(40)]
        keep(root, number, [one, *cells], saved="main", troubles={"failed": f"{SUITE}::test_x"})
    Archive(root).close()
    return root


@pytest.fixture
def root(whole, tmp_path):
    """Make a copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "records"))


def reported(root):
    """Return all answers of the archive, and its notes."""
    archive = Archive(root)
    entries = [entry for entry in archive.sessions() if not entry.trouble]
    found = (
        [(entry.name, entry.verdicts, entry.troubles, entry.status) for entry in entries],
        [archive.history_entries(entry) for entry in entries],
        archive.history(ONE),
        archive.keys("lab"),
        [records_in(entry.folder) for entry in entries],
    )
    notes = archive.notes
    archive.close()
    return found, notes


def damaged(name, line):
    """Return the beginning of the message."""
    return f"session {name}: main.jsonl:{line} is damaged ("


@pytest.fixture
def there(whole):
    found, notes = reported(whole)
    assert notes == []
    assert len(found[2]) == NIGHTS
    return found


# --- the index --------------------------------------------------------------------------------------------------------


def test_a_removed_index_is_made_anew_without_a_word(root, there):
    (root / FILE).unlink()
    assert reported(root) == (there, [])
    assert (root / FILE).exists()


def _scribble(path):
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def _scribble_from(share):
    """Overwrite the file from some offset on, so that its header is right and later pages are not."""

    def spoil(path):
        data = path.read_bytes()
        at = int(len(data) * share)
        path.write_bytes(data[:at] + random.Random(1).randbytes(len(data) - at))

    return spoil


def _truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def _drop(path):
    base = sqlite3.connect(path)
    base.execute("DROP TABLE past")
    base.commit()
    base.close()


def _leave_journal(path):
    """Leave the rollback journal of another file, which SQLite would apply to this one."""
    _scribble(path)
    path.with_name(f"{FILE}-journal").write_bytes(random.Random(2).randbytes(4096))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_scribble, "file is not a database"),
        (_scribble_from(0.1), r"database disk image is malformed|malformed database schema .*|a (row|table) .*"),
        (_scribble_from(0.5), r"database disk image is malformed|a (row|table) .*"),
        (_truncate, r"database disk image is malformed"),
        (_drop, "no such table: past"),
        (_leave_journal, "file is not a database"),
    ],
    ids=["bytes", "tenth", "half", "truncated", "table", "journal"],
)
def test_a_damaged_index_is_made_anew_and_said(root, there, spoil, why):
    spoil(root / FILE)
    found, notes = reported(root)
    assert found == there
    (note,) = notes
    assert re.fullmatch(rf"index: {root}/{FILE} was damaged \(({why})\) and is rebuilt from the records", note)
    assert reported(root) == (there, [])
    assert [path.name for path in root.glob(f"{FILE}*")] == [FILE]


@pytest.mark.parametrize("seed", range(30))
def test_bits_that_turned_in_the_index_change_no_answer(root, there, seed):
    """Some flipped bits leave every page valid, with another number or text in it."""
    draw = random.Random(seed)
    data = bytearray((root / FILE).read_bytes())
    for _ in range(draw.choice((1, 8, 60))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    (root / FILE).write_bytes(data)
    found, notes = reported(root)
    assert found == there
    assert all(" was damaged (" in note for note in notes)


@pytest.mark.parametrize("version", [0, VERSION - 1, VERSION + 100])
def test_an_index_of_another_version_is_made_anew_without_a_word(root, there, version):
    base = sqlite3.connect(root / FILE)
    base.execute("DROP TABLE past")
    base.execute("CREATE TABLE other (thing TEXT)")
    base.execute(f"PRAGMA user_version = {version}")
    base.commit()
    base.close()
    assert reported(root) == (there, [])


def test_an_empty_index_is_made_anew_without_a_word(root, there):
    (root / FILE).write_bytes(b"")
    assert reported(root) == (there, [])


def test_an_index_that_cannot_be_a_file_is_made_in_memory(root, there):
    (root / FILE).unlink()
    (root / FILE).mkdir()
    found, notes = reported(root)
    assert found == there
    assert notes == [
        f"index: {root}/{FILE} cannot be written (unable to open database file); an index in memory is used instead"
    ]


# --- the records ------------------------------------------------------------------------------------------------------


def test_a_record_that_was_cut_in_the_middle_of_its_line_is_no_record(root):
    """The state after kill -9: whole lines are kept, and no message is needed, as no whole line is lost."""
    folder = keep(root, NIGHTS, [record(1), record(2)], status=None)
    path = folder / "main.jsonl"
    os.truncate(path, path.stat().st_size - 10)
    for _ in range(2):
        archive = Archive(root)
        entry = archive.find("last")
        assert (entry.verdicts, entry.status, archive.notes) == ({"within": 1}, None, [])
        assert records_in(folder) == [record(1)] == list(read_session_summary(folder).records)
        archive.close()
    with path.open("ab") as file:  # no writer goes on behind half a line
        file.write(b"nonsense\n")
    archive = Archive(root)
    assert archive.find("last").verdicts == {"within": 1}
    assert archive.notes[0].startswith(damaged(name_of(NIGHTS), 5))
    archive.close()


@pytest.mark.parametrize("tail", [b"\0" * 4096, b'\0\0{"event"', b"{}", b"\xff"])
def test_zeros_that_a_loss_of_power_leaves_are_no_record_and_no_end_in_order(root, tail):
    """A file system may keep a file's new length and lose its new content; whole lines written before are intact."""
    folder = keep(root, NIGHTS, [record(1)], status=None)
    with (folder / "main.jsonl").open("ab") as file:
        file.write(tail)
    archive = Archive(root)
    entry = archive.find("last")
    assert (entry.verdicts, entry.status, entry.trouble, archive.notes) == ({"within": 1}, None, "", [])
    assert (records_in(folder), read_session_summary(folder).status) == ([record(1)], None)
    archive.close()


@pytest.mark.parametrize(
    "line",
    [
        b"\0" * 100 + b"\n",
        b"\n",
        b'{"event": "record", "at": 1, "cell": "x"\n',
        b'{"event": "record", "at": 1, "cell": "x", "metric": "loss", "test": {}, "reference": {}}\n',
        b'{"event": "run", "at": \0\0\0\n',
        b'{"event": "note", "at": 1, "text": "so"}\n',
        b'{"event": "session", "at": "x", "schema": 6, "seed": 7, "design": 3}\n',
    ],
    ids=["zeros", "empty", "half", "lacking", "run", "unsealed", "session"],
)
@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "last"])
def test_a_damaged_line_is_named_behind_it_nothing_is_read_and_no_answer_is_made_of_it(root, line, last):
    folder = keep(root, NIGHTS, [record(1)], status=None)
    path = folder / "main.jsonl"
    number = 1 if b'"session"' in line else path.read_bytes().count(b"\n") + 1
    if number == 1:
        path.write_bytes(line + path.read_bytes())
    else:
        path.write_bytes(path.read_bytes() + line)
    if not last:
        event_log = EventLog(folder, "main")
        event_log.append("end", {"status": 0, "seconds": 1})
        event_log.close()
    damage = damaged(name_of(NIGHTS), number)
    for _ in range(2):
        archive = Archive(root)
        (note,) = archive.notes
        assert note.startswith(damage)
        entry = archive.find("last")
        assert (entry.name, entry.status, entry.trouble) == (name_of(NIGHTS), None, note)
        assert entry.verdicts == ({"within": 1} if number > 1 else {})
        with pytest.raises(DamageError, match=f"^{re.escape(note)}$"):
            archive.history_entries(entry)
        assert name_of(NIGHTS) not in {past.session for past in archive.history(ONE)}
        archive.close()
        for read in (read_session_summary, read_session, records_in):
            with pytest.raises(DamageError, match=f"^{re.escape(note)}$"):
                read(folder)
    said: list[str] = []
    if number > 1:
        assert list(read_session_summary(folder, damage=said).records) == [record(1)]
        assert said == [note]


@pytest.mark.parametrize("how", ["zero", "cut", "twice", "rights"])
def test_the_index_hides_no_damage_that_came_after_it(root, there, how):
    """Zeros that replace bytes leave the size unchanged; restoring a copy repairs it."""
    path = root / "runs" / name_of(1) / "main.jsonl"
    whole, times = path.read_bytes(), path.stat()
    if how == "zero":
        path.write_bytes(whole.replace(b'"verdict"', b'"ver\0ict"', 1))
    elif how == "cut":
        path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-5]))
    elif how == "twice":
        lines = whole.splitlines(keepends=True)
        path.write_bytes(b"".join([*lines[:9], lines[8], *lines[9:]]))
    else:
        path.unlink()
        path.mkdir()
    for _ in range(2):
        archive = Archive(root)
        entry = archive.find(name_of(1))
        if how == "cut":  # as if it had been killed
            assert (entry.status, archive.notes, sum(entry.verdicts.values())) == (None, [], 38)
        else:
            assert archive.notes == [entry.trouble]
            assert archive.notes[0].startswith(f"session {name_of(1)}: main.jsonl")
            assert [past.session for past in archive.history(ONE)] == [name_of(each) for each in (0, 2, 3)]
        archive.close()
    if how == "rights":
        path.rmdir()
    path.write_bytes(whole)
    assert reported(root) == (there, [])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert reported(root) == (there, [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": [10]},
        {"epochs": 10**30},
        {"epochs": 10.5},
        {"estimate": 10**400},
        {"sd_epoch": "x"},
        {"header_cost": None},
        {"margin_fraction": 10**30},
        {"margin": 5},
        {"verdict": ["within"]},
        {"cell": 7},
        {"fingerprint": "\ud800"},
        {"taken_from": {}},
        {"test": {**record(1).to_plain()["test"], "values": [math.nan]}},
        {"reference": {**record(1).to_plain()["test"], "attempted": "x"}},
    ],
    ids=lambda wrong: f"{next(iter(wrong))}-{str(next(iter(wrong.values())))[:3]!a}",
)
def test_a_record_with_values_that_no_record_has_is_damage_of_its_line(root, there, wrong):
    folder = keep(root, NIGHTS, [], status=None)
    path = folder / "main.jsonl"
    number = path.read_bytes().count(b"\n") + 1
    event_log = EventLog(folder, "main")
    event_log.append("record", record(1).to_plain() | wrong)
    event_log.close()
    for _ in range(2):
        archive = Archive(root)
        (note,) = archive.notes
        assert note.startswith(damaged(name_of(NIGHTS), number))
        assert len(note) < 300
        assert [archive.history_entries(entry) for entry in archive.sessions()[:-1]] == there[1]
        archive.close()
    with pytest.raises(DamageError, match=f"^{re.escape(note)}$"):
        read_session_summary(folder)


@pytest.mark.parametrize("wrong", [{"status": [0], "seconds": 1}, {"status": 0, "seconds": "1"}])
def test_an_end_that_is_none_is_damage_of_its_line(root, wrong):
    folder = keep(root, NIGHTS, [record(1)], status=None)
    number = (folder / "main.jsonl").read_bytes().count(b"\n") + 1
    event_log = EventLog(folder, "main")
    event_log.append("end", wrong)
    event_log.close()
    archive = Archive(root)
    (note,) = archive.notes
    assert note.startswith(damaged(name_of(NIGHTS), number))
    assert archive.find("last").verdicts == {"within": 1}
    archive.close()


def test_a_fault_of_ours_is_not_taken_for_damage_of_the_index(root, monkeypatch):
    keep(root, NIGHTS, [record(1)])
    wrong: Any = [10]
    monkeypatch.setattr(events, "plain_record", lambda *_: dataclasses.replace(record(1), epochs=wrong))
    before = (root / FILE).stat().st_ino
    with pytest.raises(sqlite3.Error, match=r"[Bb]inding parameter"):
        Archive(root)
    assert (root / FILE).stat().st_ino == before


@pytest.mark.parametrize(
    ("schema", "remedy"), [(4, ""), (8, "; a newer pytest-ipperf wrote it, install that"), ("six", "")]
)
def test_records_of_a_version_that_is_not_read_are_said_and_the_others_are_there(root, there, schema, remedy):
    folder = keep(root, NIGHTS, [record(1)], schema=schema)
    sentence = f"has records of schema {schema}; this version reads schemas 5 to 7{remedy}"
    for _ in range(2):
        found, notes = reported(root)
        assert (found, notes) == (there, [f"session {folder.name} {sentence}"])
        with contextlib.closing(Archive(root)) as archive:  # nobody who asks for the last one gets another
            assert (archive.find("last").name, archive.find("last").verdicts) == (folder.name, {})
    with pytest.raises(UsageError, match=re.escape(f"session {folder.name} {sentence}")):
        read_session_summary(folder)


def test_a_session_that_was_removed_is_gone_without_a_word(root):
    shutil.rmtree(root / "runs" / name_of(1))
    found, notes = reported(root)
    assert [name for name, *_ in found[0]] == [name_of(0), name_of(2), name_of(3)]
    assert ([past.session for past in found[2]], notes) == ([name_of(0), name_of(2), name_of(3)], [])


def test_a_session_that_may_not_be_read_is_said_and_the_others_are_there(root, there):
    """A directory in place of the file imitates missing permissions, which root always has."""
    path = root / "runs" / name_of(NIGHTS) / "main.jsonl"
    path.mkdir(parents=True)
    for _ in range(2):
        found, notes = reported(root)
        assert (found, notes) == (there, [f"session {name_of(NIGHTS)}: main.jsonl cannot be read (Is a directory)"])


@pytest.mark.parametrize("what", ["loop", "file", "nowhere", "empty"])
def test_what_has_a_sessions_name_and_is_no_session_is_said_and_the_others_are_there(root, there, what):
    folder = root / "runs" / name_of(NIGHTS)
    if what == "file":
        folder.write_text("x")
    elif what == "empty":
        (folder / "tables").mkdir(parents=True)
    else:
        folder.symlink_to(folder if what == "loop" else root / "gone")
    (root / "runs" / "README").write_text("what lies here")
    for _ in range(2):
        found, notes = reported(root)
        assert found == there
        words = "has no records: no event log in it begins with an event 'session'"
        assert notes == [f"session {name_of(NIGHTS)} {words}"]


@pytest.mark.parametrize("what", ["fifo", "loop", "nowhere"])
def test_a_journal_that_is_no_file_keeps_nobody_waiting(root, there, what):
    path = root / "runs" / name_of(NIGHTS) / "main.jsonl"
    path.parent.mkdir()
    if what == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(path if what == "loop" else root / "gone")
    why = {
        "fifo": "it is not a regular file",
        "loop": "Too many levels of symbolic links",
        "nowhere": "No such file or directory",
    }
    for _ in range(2):
        found, notes = reported(root)
        assert (found, notes) == (there, [f"session {name_of(NIGHTS)}: main.jsonl cannot be read ({why[what]})"])
        assert not is_being_written(path.parent)


def test_a_session_that_is_removed_while_it_is_looked_at_is_none(root, there, monkeypatch):
    keep(root, NIGHTS, [record(1)])
    read = Index._read

    def late(self, folder):
        shutil.rmtree(folder)
        read(self, folder)

    monkeypatch.setattr(Index, "_read", late)
    assert reported(root) == (there, [])


def test_records_that_may_not_be_read_are_one_sentence(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(LabError, match=rf"^records: {tmp_path}/runs cannot be read \(Permission denied\)$"):
        Archive(tmp_path)


# --- writers ----------------------------------------------------------------------------------------------------------


def test_of_two_writers_of_a_journal_the_second_is_refused(root):
    first, second = (EventLog(root / "runs" / "20261201T000000Z-aa", "main") for _ in range(2))
    first.append("session", facts(9))
    with pytest.raises(LabError) as refused:
        second.append("session", facts(9))
    assert str(refused.value) == (
        f"records: {first.folder} cannot be written (another process is writing it); what was written before is kept; "
        "name another folder with --ipperf-records"
    )
    first.append("end", {"status": 0, "seconds": 1})
    first.close()
    second.close()
    archive = Archive(root)
    assert (archive.find("last").status, archive.notes) == (0, [])
    archive.close()


# Neither imports what judges a record, which takes longer than all that they do.
WRITER = """
import json, sys
from pathlib import Path
from pytest_ipperf.store import EventLog
most, plain = int(sys.argv[2]), json.loads(sys.argv[5])
journal = EventLog(Path(sys.argv[1]) / "runs" / sys.argv[3], "main")
journal.append("session", json.loads(sys.argv[4]))
for each in range(most):
    journal.append("record", {**plain, "cell": f"lab-{each}"})
    journal.append("trouble", {"nodeid": f"x[{each}]", "kind": "failed", "sentence": "so"})
    print(each + 1, flush=True)
journal.append("end", {"status": 0, "seconds": 1})
"""
READER = """
import sys
from pathlib import Path
from pytest_ipperf.store import Archive
names, most = sys.argv[3:], int(sys.argv[2])
seen = dict.fromkeys(names, 0)
while min(seen.values()) < most:
    archive = Archive(Path(sys.argv[1]))
    assert archive.notes == [], archive.notes
    for entry in archive.sessions():
        cells = sum(entry.verdicts.values())
        assert len(archive.history_entries(entry)) >= cells  # another reader may have been here since
        assert seen[entry.name] <= cells <= entry.troubles + 1, entry
        seen[entry.name] = cells
    archive.close()
"""


def start_writer(root, number, most, name):
    session = json.dumps(facts(number), default=dataclasses.asdict)
    return start(WRITER, root, most, name, session, json.dumps(record(1).to_plain()))


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.host
def test_two_sessions_at_once_are_read_by_three_while_they_run(tmp_path):
    names, most = ["a", "b"], 150
    writers = [start_writer(tmp_path, number, most, name) for number, name in enumerate(names)]
    readers = [start(READER, tmp_path, most, *names) for _ in range(3)]
    for each in (*writers, *readers):
        _, said = each.communicate(timeout=60)
        assert (each.returncode, said) == (0, "")
    archive = Archive(tmp_path)
    assert [(entry.verdicts, entry.troubles) for entry in archive.sessions()] == [({"within": most}, most)] * 2
    archive.close()


@pytest.mark.host
def test_a_writer_that_is_killed_never_loses_a_finished_record(tmp_path):
    """Killing a reader while it updates the index must not lose one either."""
    draw = random.Random(7)
    for number in range(6):
        name = f"s{number}"
        writer, reader = start_writer(tmp_path, number, 10**6, name), start(READER, tmp_path, 10**6, name)
        assert writer.stdout
        finished = 0
        for _ in range(draw.randint(1, 400)):
            finished = int(writer.stdout.readline())
        for each in (writer, reader):
            each.send_signal(signal.SIGKILL)
            each.communicate()
        archive = Archive(tmp_path)
        entry = archive.find(name)
        assert (archive.notes, entry.status, len(archive.sessions())) == ([], None, number + 1)
        kept = [each.cell for each in records_in(entry.folder)]
        assert kept[:finished] == [f"lab-{each}" for each in range(finished)]
        assert len(kept) == len(archive.history_entries(entry)) == sum(entry.verdicts.values())
        assert len(read_session_summary(entry.folder).records) == len(kept)
        archive.close()


# --- disks ------------------------------------------------------------------------------------------------------------

DISK = """
import json, sys
from pathlib import Path
from pytest_ipperf.store import Archive
root = Path(sys.argv[1])
def reported():
    archive = Archive(root)
    found = [
        (entry.name, sum(entry.verdicts.values()), len(archive.history_entries(entry)))
        for entry in archive.sessions()
    ]
    notes = archive.notes
    archive.close()
    return found, notes
"""
FULL = """
import contextlib
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.store import EventLog, withdraw
from tests.store.kept import facts, keep, name_of, record
(root / "spare").write_bytes(bytes(300_000))
keep(root, 0, [record(1)])
before = reported()
journal = EventLog(root / "runs" / name_of(1), "main")
journal.append("session", facts(1))
plain, written = record(1).to_plain(), 0
try:
    while True:
        journal.append("record", {**plain, "cell": f"lab-{written}"})
        written += 1
except IpperfError as error:
    sentence = str(error)
with_index = reported()
(root / "index.sqlite").unlink()
with (root / "more").open("wb", buffering=0) as file, contextlib.suppress(OSError):
    while file.write(bytes(4096)):
        pass
without = reported()
try:
    for _ in range(100):
        withdraw(root, "*" * 999, reason="", by="", at=0.0)
except IpperfError as error:
    refused = str(error)
(root / "more").unlink()
(root / "spare").unlink()
print(json.dumps([before, sentence, written, with_index, without, refused, reported()]))
"""
READ_ONLY = """
print(json.dumps(reported()))
"""


def inside(mount, script, root, target=None):
    """Return the output of a script that runs in its own namespace, with a disk made by a mount command."""
    argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    done = subprocess.run(
        [*argv, sys.executable, "-c", DISK + script, str(target or root)],
        cwd=ROOT, text=True, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    if "Operation not permitted" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip("a disk of one's own takes root")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.host
def test_on_a_full_disk_what_was_finished_is_kept(tmp_path):
    root = tmp_path
    before, sentence, written, with_index, without, refused, after = inside(
        f"mount -t tmpfs -o size=900k none {root}", FULL, root
    )
    assert before == [[[name_of(0), 1, 1]], []]
    assert sentence == (
        f"records: {root}/runs/{name_of(1)} cannot be written (No space left on device); "
        "what was written before is kept; name another folder with --ipperf-records"
    )
    assert written > 20
    there = [[name_of(0), 1, 1], [name_of(1), written, written]]
    full = "database or disk is full"
    path = f"index: {root}/{FILE} cannot be written"
    assert with_index == [there, [f"{path} ({full}); new records are read into memory for this time"]]
    assert without == [there, [f"{path} ({full}); an index in memory is used instead"]]
    assert refused == f"acceptances: {root}/accepted.jsonl cannot be written (No space left on device)"
    assert after == [there, []]


@pytest.mark.host
@pytest.mark.parametrize("state", ["current", "behind", "absent", "other", "damaged"])
def test_a_folder_that_may_only_be_read_is_read(root, state):
    path = root / FILE
    if state == "behind":
        keep(root, NIGHTS, [record(1)])
    elif state == "absent":
        path.unlink()
    elif state == "other":
        base = sqlite3.connect(path)
        base.execute("PRAGMA user_version = 1")
        base.close()
    elif state == "damaged":
        _scribble(path)
    found, notes = inside(f"mount --bind {root} {root} && mount -o remount,ro,bind {root}", READ_ONLY, root)
    nights = NIGHTS + (state == "behind")
    assert [name for name, *_ in found] == [name_of(number) for number in range(nights)]
    assert found[0][1:] == [41, 41]
    file, memory = f"index: {path}", "an index in memory is used instead"
    refused = "attempt to write a readonly database"
    assert (
        notes
        == {
            "current": [],
            "behind": [f"{file} cannot be written ({refused}); new records are read into memory for this time"],
            "absent": [f"{file} cannot be written (unable to open database file); {memory}"],
            "other": [f"{file} cannot be written ({refused}); {memory}"],
            "damaged": [
                f"{file} was damaged (file is not a database) and is rebuilt from the records",
                f"{file} cannot be written ([Errno 30] Read-only file system: '{path}'); {memory}",
            ],
        }[state]
    )
