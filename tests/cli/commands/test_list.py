"""`pytest-ipperf list`, and properties of all commands on the archive."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from pytest_ipperf.store import EventLog
from tests.store.kept import facts, keep, name_of, record

# The exit status of each command, and the modules imported at its end.
LOADED = """
import json, sys
from pytest_ipperf import cli
status = cli.main(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]), file=sys.stderr)
"""


def test_all_sessions_are_told_the_newest_last(program, history):
    status, lines, said = program(history, "list")
    assert (status, said, len(lines)) == (0, "", 29)
    assert lines[0].split("  ")[0] == "session"
    shown = [" ".join(line.split()) for line in lines]
    assert shown[1] == f"{name_of(0)} 2026-11-22 01:30 62 s nightly main 3 within status 0"
    assert shown[24] == f"{name_of(23)} 2026-12-15 01:30 62 s nightly main 1 exceeds, 2 within 2 status 1"
    assert shown[25].endswith(" 62 s nightly 1 unjudged status 10")
    assert shown[26].endswith(" 62 s nightly 1 inconclusive, 1 within status 10")
    assert shown[27] == f"{name_of(26)} 2026-12-18 01:30 nightly 1 within broken off, some cells"
    assert shown[28] == f"session {name_of(26)}: BROKEN OFF: some cells measured; go on with --ipperf-resume=last"


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["-n", "2"], [25, 26]),
        (["--saved", "main", "-n", "1"], [23]),
        (["--saved", "main"], range(24)),
        (["-n", "0"], range(27)),
    ],
)
def test_only_some_are_told(program, history, arguments, numbers):
    _, lines, _ = program(history, "list", *arguments)
    assert [line.split()[0] for line in lines[1:] if "BROKEN OFF" not in line] == [
        name_of(number) for number in numbers
    ]


def test_a_session_that_runs_is_told_apart_from_one_that_was_broken_off(program, tmp_path):
    root = tmp_path / ".ipperf"
    journal = EventLog(root / "runs" / "20261122T013000Z-aa", "main")
    journal.append("session", facts(0))
    _, lines, _ = program(root, "list")
    journal.append("plan", {"items": {"t.py::a": "lab-a", "t.py::b": "lab-b", "t.py::c": "lab-b"}})
    _, lines, _ = program(root, "list")
    assert lines[1].endswith("  running, 0 of 2 cells")
    assert lines[2] == "session 20261122T013000Z-aa: RUNNING: 0 of 2 cells measured so far"
    journal.close()
    _, lines, _ = program(root, "list")
    assert lines[1].endswith("  broken off, 0 of 2 cells")
    banner = "BROKEN OFF: 0 of 2 cells measured; go on with --ipperf-resume=last"
    assert lines[2] == f"session 20261122T013000Z-aa: {banner}"


def test_a_night_has_its_light_and_an_old_session_no_known_end(program, tmp_path):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1)])
    keep(root, 1, [], schema=5, status=None)
    verdict = {"session": name_of(0), "saved": "night", "status": 10, "cells": []}
    (root / "nights" / name_of(0)).mkdir(parents=True)
    (root / "nights" / name_of(0) / "verdict.json").write_text(json.dumps(verdict))
    _, lines, _ = program(root, "list")
    assert lines[1].endswith("  status 0  nothing decided")
    assert lines[2].endswith("  unknown")


def test_what_cannot_be_read_is_said_beside_the_answer(program, tmp_path):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1)])
    keep(root, 1, [record(1)], schema=4)
    status, lines, said = program(root, "list")
    assert (status, len(lines), lines[-1].split()[-1]) == (0, 3, "unreadable")
    assert said == f"session {name_of(1)} has records of schema 4; this version reads schemas 5 to 7\n"


def test_wrong_usage_is_one_sentence(program, history, tmp_path):
    for arguments, sentence in {
        ("list", "-n", "-1"): "-n -1 is not a number of zero (all) or more",
        ("list", "--saved", "mian"): f"there is no session saved as 'mian' in {history / 'runs'} yet",
        ("list", "--ipperf-records", "nowhere"): "--ipperf-records: 'nowhere' is not a folder",
        ("list", "all"): "unrecognized arguments: all; see pytest-ipperf list --help",
    }.items():
        assert program(history, *arguments) == (4, [], f"pytest-ipperf: {sentence}\n")
    elsewhere = tmp_path / "a" / "b"
    elsewhere.mkdir(parents=True)
    status, _, said = program(elsewhere, "list")
    assert (status, said.endswith(" or above; measure first, or name a folder by --ipperf-records\n")) == (4, True)
    (tmp_path / "empty").mkdir()
    status, _, said = program(history, "list", "--ipperf-records", tmp_path / "empty")
    assert (status, said) == (4, f"pytest-ipperf: there is no session in {tmp_path}/empty/runs yet\n")


@pytest.mark.parametrize(
    ("line", "light"),
    [
        ("list", True),
        ("accept --list", True),
        ("show main", False),
        ("show c1-", False),
        ("compare last~4 last~3", False),
        ("export main --format csv --output /dev/null", False),
    ],
)
def test_pytest_is_not_needed(history, line, light):
    """Commands that only show records import no scipy either, which takes longer than everything else."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *line.split()], cwd=history.parent, capture_output=True, text=True, check=True
    )
    status, loaded = json.loads(done.stderr.splitlines()[-1])
    assert status == 0
    heavy = {"pytest", "_pytest", "xdist", "matplotlib", "aiohttp"} | ({"scipy", "numpy"} if light else set())
    assert heavy & set(loaded) == set()


def test_the_sessions_are_those_of_the_nearest_folder_above(program, history):
    below = history.parent / "a" / "b"
    below.mkdir(parents=True, exist_ok=True)
    _, lines, _ = program(below / "c", "list", "-n", "1")
    assert lines[1].startswith(name_of(26))


def test_the_clock_of_the_sessions_is_utc(program, history, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    _, lines, _ = program(history, "list", "-n", "1")
    monkeypatch.undo()
    time.tzset()
    assert "2026-12-18 01:30" in lines[1]
