import json
import resource
import signal
import subprocess
import sys
from array import array

import pytest

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.store import EventLog, is_being_written, run_folder


def test_a_session_that_measures_nothing_leaves_nothing(tmp_path):
    EventLog(tmp_path / "runs" / "one", "main").close()
    assert list(tmp_path.iterdir()) == []


def test_events_and_samples_can_be_read_back(tmp_path):
    event_log = EventLog(tmp_path / "one", "main")
    rows = array("d", [0.0, 0.1, 0.2, 0.3, 0.4])
    offsets = [event_log.append_samples(rows.tobytes()) for _ in range(2)]
    event_log.append("run", {"offset": offsets[1], "rows": 1, "odd": {1, 2}, "path": tmp_path})
    event_log.close()
    line = json.loads((tmp_path / "one" / "main.jsonl").read_text())
    assert (line["event"], line["rows"], line["odd"], line["path"]) == ("run", 1, [1, 2], str(tmp_path))
    back = array("d")
    with (tmp_path / "one" / "main.f64").open("rb") as file:
        file.seek(line["offset"])
        back.fromfile(file, 5 * line["rows"])
    assert back == rows


def test_a_file_that_grows_has_its_head_once(tmp_path):
    event_log = EventLog(tmp_path / "one", "main")
    for packets in (b"HEADone", b"HEADtwo"):
        event_log.append_file("captures/a.pcap", packets, head_bytes=4)
    assert (tmp_path / "one" / "captures" / "a.pcap").read_bytes() == b"HEADonetwo"
    (tmp_path / "one" / "captures" / "b.pcap").mkdir()
    with pytest.raises(LabError, match=r"^records: .* cannot be written \(Is a directory\)"):
        event_log.append_file("captures/b.pcap", b"HEAD", head_bytes=4)


def test_workers_write_side_by_side(tmp_path):
    for writer in ("gw0", "gw1"):
        event_log = EventLog(tmp_path / "one", writer)
        event_log.append("note", {"text": writer})
        event_log.append_samples(b"")
        event_log.close()
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "gw0.f64",
        "gw0.jsonl",
        "gw1.f64",
        "gw1.jsonl",
    ]


def test_folders_of_sessions_sort_by_time_and_never_collide(tmp_path):
    names = {run_folder(tmp_path).name for _ in range(50)}
    assert len(names) == 50
    assert run_folder(tmp_path).parent == tmp_path / "runs"


@pytest.mark.host
def test_a_killed_writer_loses_no_line_that_was_appended(tmp_path):
    code = (
        "import os, signal, sys, pathlib; from pytest_ipperf.store import EventLog\n"
        "journal = EventLog(pathlib.Path(sys.argv[1]), 'main')\n"
        "for n in range(1000): journal.append('run', {'n': n})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "one"], check=False)
    assert done.returncode == -signal.SIGKILL
    lines = (tmp_path / "one" / "main.jsonl").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(1000))


@pytest.mark.host
def test_half_a_line_does_not_spoil_the_next_one(tmp_path):
    """A limit on the size of files imitates a disk with room for part of a line only."""
    code = (
        "import resource, sys, pathlib; from pytest_ipperf.core.portable.errors import LabError\n"
        "from pytest_ipperf.store import EventLog\n"
        "journal = EventLog(pathlib.Path(sys.argv[1]), 'main')\n"
        "journal.append('note', {'text': 'kept'})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
        "try: journal.append('note', {'text': 'long' * 100})\n"
        "except LabError as error: journal.append('note', {'text': 'short'}); print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "one"], capture_output=True, text=True, check=True)
    assert "cannot be written (No space left on device)" in done.stdout
    lines = (tmp_path / "one" / "main.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["kept", "short"]


def test_a_full_disk_is_said_with_the_folder_and_keeps_what_was_written(tmp_path):
    """A link to /dev/full, which takes nothing, imitates a full disk."""
    folder = tmp_path / "one"
    event_log = EventLog(folder, "main")
    event_log.append("note", {"text": "kept"})
    event_log.close()
    (folder / "full.jsonl").symlink_to("/dev/full")
    full = EventLog(folder, "full")
    with pytest.raises(LabError, match=rf"records: {folder} cannot be written \(No space left on device\); .* is kept"):
        full.append("note", {"text": "lost"})
    full.close()
    assert "kept" in (folder / "main.jsonl").read_text()


def test_whether_a_session_is_being_written_is_known_and_disturbs_no_writer(tmp_path):
    folder = tmp_path / "one"
    assert not is_being_written(folder)
    folder.mkdir()
    (folder / "main.jsonl").touch()
    assert not is_being_written(folder)  # its writer may be about to lock it
    event_log = EventLog(folder, "main")
    event_log.append("session", {})
    assert is_being_written(folder)
    event_log.append("end", {})
    event_log.close()
    assert not is_being_written(folder)


def test_samples_after_half_of_some_found_no_room_stand_where_their_offset_says(tmp_path):
    rows = array("d", range(40)).tobytes()
    log = EventLog(tmp_path / "run", "main")
    log.append_samples(rows)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(rows) + 100, before[1]))
    try:
        with pytest.raises(LabError, match="cannot be written"):
            log.append_samples(rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    later = array("d", [7.0]).tobytes()
    offset = log.append_samples(later)
    log.close()
    kept = (tmp_path / "run" / "main.f64").read_bytes()
    assert (offset, kept[offset:]) == (len(rows), later)
