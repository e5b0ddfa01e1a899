"""Damaged records are reported with file and line, and never taken for a green session."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

from pytest_ipperf.cli.night.finish import end_night
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.store import verdict_with_checksum
from tests.store.kept import events_of, keep, name_of, record, rewrite

PROGRAM = [sys.executable, "-c", "import sys; from pytest_ipperf.cli import main; sys.exit(main())"]


@pytest.fixture
def root(tmp_path):
    """A green session, followed by a red one with a zero byte in the middle of its journal."""
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1)], saved="main")
    folder = keep(root, 1, [record(1), record(2, 1.3)], saved="main", status=1)
    spoil(folder, 2)
    return root


def spoil(folder, line):
    """Put a zero byte into a line of a journal."""
    path = folder / "main.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    middle = len(lines[line - 1]) // 2
    lines[line - 1] = lines[line - 1][:middle] + b"\0" + lines[line - 1][middle + 1 :]
    path.write_bytes(b"".join(lines))


def damage(number, line):
    return f"session {name_of(number)}: main.jsonl:{line} is damaged ("


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("line", [1, 2, 5, 6], ids=["session", "workload", "record", "end"])
def test_nothing_is_exported_of_a_damaged_session(program, root, tmp_path, form, line):
    """Such a session once gave an empty JUnit file and status 0."""
    folder = root / "runs" / name_of(1)
    keep(root, 2, [record(1), record(2, 1.3)], saved="main", status=1)
    spoil(root / "runs" / name_of(2), line)
    for named in ("last", name_of(2), f"{folder.parent}/{name_of(2)}"):
        status, lines, said = program(root, "export", named, "--format", form, "--output", f"{tmp_path}/it")
        assert (status, lines) == (1, [])
        assert f"pytest-ipperf: {damage(2, line)}" in said
        assert list(tmp_path.iterdir()) == [root]


def test_list_and_show_tell_the_same_of_it(program, root):
    status, lines, said = program(root, "list")
    assert status == 0
    assert [" ".join(line.split()[-2:]) for line in lines[1:3]] == ["status 0", "main unreadable"]
    assert said.startswith(damage(1, 2))
    status, lines, shown = program(root, "show", "last")
    assert (status, shown, lines[0]) == (0, said, said.strip())


@pytest.mark.parametrize("pair", [("last~1", "last"), ("last", "last~1")])
def test_a_damaged_session_is_compared_with_none(program, root, pair):
    status, lines, said = program(root, "compare", *pair)
    assert (status, lines) == (1, [])
    assert f"pytest-ipperf: {damage(1, 2)}" in said


def test_the_course_of_a_cell_leaves_it_out_and_says_so(program, root):
    _, lines, said = program(root, "show", "http")
    assert [line.split()[0] for line in lines if line.startswith("2026")] == [name_of(0)]
    assert said.startswith(damage(1, 2))


def test_what_is_already_there_stays_where_a_disk_takes_no_more(program, tmp_path):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1)])
    (tmp_path / "it").write_text("of yesterday")
    (tmp_path / ".it.part").symlink_to("/dev/full")
    status, _, said = program(root, "export", "last", "--format", "json", "-o", tmp_path / "it")
    assert (status, (tmp_path / "it").read_text()) == (1, "of yesterday")
    assert "cannot be written (No space left on device)" in said


def test_who_reads_no_further_does_not_turn_what_is_worse_into_green(tmp_path):
    root = tmp_path / ".ipperf"
    for number, ratio in enumerate((1.0, 1.3)):
        keep(root, number, [record(each, ratio) for each in range(300)])
    compare = [*PROGRAM, "compare", "last~1", "last"]
    script = '"$@" | head -c 1 >/dev/null; exit "${PIPESTATUS[0]}"'
    done = subprocess.run(["bash", "-c", script, "bash", *compare], cwd=tmp_path, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (1, b"")


# --- nights -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def decide(capsys):
    """A function that ends a night and discards its output; returns its status."""

    def end(root, screening, fresh=None, lost=""):
        status = end_night(root, screening, fresh, lost=lost, saved="night", baseline="night", output=None)
        capsys.readouterr()
        return status

    return end


@pytest.fixture
def nights(tmp_path, decide):
    """Three nights of two cells, the last of which is red by fresh epochs."""
    root = tmp_path / ".ipperf"
    for number in range(3):
        worse = 1.3 if number == 2 else 1.0
        screening = keep(root, 2 * number, [record(1, seed=number), record(2, worse, seed=number)], saved="night")
        fresh = None
        if number == 2:
            fresh = keep(root, 5, [record(2, worse, seed=9)], saved="night.fresh", status=1)
        assert decide(root, screening, fresh) == (worse > 1)
    return root


def export(program, root, name=""):
    status, lines, said = program(root, "export", name or name_of(4), "--format", "junit")
    return status, "\n".join(lines), said


def test_a_night_whose_verdict_is_gone_is_no_session_without_one(program, nights):
    assert export(program, nights)[0] == 0
    (nights / "nights" / name_of(4) / "verdict.json").unlink()
    for _ in range(2):
        status, lines, said = export(program, nights)
        assert (status, lines) == (1, "")
        assert f"pytest-ipperf: night {name_of(4)}: verdict.json is no longer in " in said


CHANGES: dict[str, dict[str, Any]] = {
    "light": {"light": "green", "status": 0},
    "fresh": {"fresh_session": None},
    "cells": {"cells": []},
    "status": {"status": "0"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_verdict_that_was_changed_is_seen(program, nights, change):
    path = nights / "nights" / name_of(4) / "verdict.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **change}))
    status, lines, said = export(program, nights)
    assert (status, lines) == (1, "")
    assert (
        f"{path.relative_to(nights.parent)} is not a verdict (its checksum does not match its content); put back"
        in said
    )


@pytest.mark.parametrize("change", ["light", "fresh", "cells"])
def test_a_verdict_that_its_records_do_not_give_is_trouble(program, nights, change):
    """For example when a night of the history is missing; with a correct checksum."""
    path = nights / "nights" / name_of(4) / "verdict.json"
    document = json.loads(path.read_text())
    path.write_bytes(verdict_with_checksum({**document, **CHANGES[change]}))
    status, lines, _ = export(program, nights)
    assert status == 0
    assert f"night {name_of(4)} ended as " in lines
    assert 'errors="0"' not in lines


def test_an_answer_that_was_lost_is_trouble_of_the_night_whenever_it_is_told(program, decide, tmp_path):
    root = tmp_path / ".ipperf"
    screening = keep(root, 0, [record(1)], saved="night", status=None)
    assert decide(root, screening, lost="the disk is full") == 1
    status, lines, _ = export(program, root, name_of(0))
    assert (status, "the disk is full" in lines, " ended as " in lines) == (0, True, False)


@pytest.mark.parametrize("which", [4, 5], ids=["screening", "fresh"])
def test_a_night_with_a_damaged_session_is_not_told_as_if_it_were_whole(program, nights, which):
    spoil(nights / "runs" / name_of(which), 4)
    status, lines, said = export(program, nights)
    assert (status, lines) == (1, "")
    assert damage(which, 4) in said
    status, shown, _ = program(nights, "show", name_of(4))
    assert (status, shown[0][: len(damage(which, 4))]) == (0, damage(which, 4))


@pytest.mark.parametrize("gone", ["fresh", "accepted"])
def test_what_a_night_was_decided_by_may_be_gone_and_its_screening_is_shown(program, nights, gone):
    if gone == "fresh":
        shutil.rmtree(nights / "runs" / name_of(5))
        sentence = f"session {nights}/runs/{name_of(5)} is not there"
    else:
        (nights / "accepted.jsonl").write_text("so be it\n")
        sentence = f"{nights}/accepted.jsonl:1: 'so be it' is not an acceptance ("
    status, lines, said = export(program, nights)
    assert (status, lines) == (4, "")
    assert sentence.rpartition("/")[2] in said
    status, shown, _ = program(nights, "show", name_of(4))
    assert (status, sentence.rpartition("/")[2] in shown[0]) == (0, True)
    assert any("EXCEEDS" in line for line in shown)


def test_an_unread_night_of_another_name_is_left_out_of_no_history(program, decide, nights):
    path = nights / "nights" / name_of(2) / "verdict.json"
    other = keep(nights, 1, [record(1)], saved="other")
    (nights / "nights" / other.name).mkdir()
    (nights / "nights" / other.name / "verdict.json").write_text("so be it\n")
    screening = keep(nights, 6, [record(1, seed=6), record(2, seed=6)], saved="night")
    decide(nights, screening)
    verdict = nights / "nights" / name_of(6) / "verdict.json"
    assert [each for each in json.loads(verdict.read_text())["warnings"] if "left out" in each] == []
    path.write_text("so be it\n")
    decide(nights, screening)
    (warning,) = [each for each in json.loads(verdict.read_text())["warnings"] if "left out" in each]
    assert f"night {name_of(2)}: " in warning


def test_a_damaged_night_of_the_history_is_left_out_and_said_in_every_report(program, decide, nights):
    spoil(nights / "runs" / name_of(2), 5)
    screening = keep(nights, 6, [record(1, seed=6), record(2, seed=6)], saved="night")
    assert decide(nights, screening) == 0
    verdict = json.loads((nights / "nights" / name_of(6) / "verdict.json").read_text())
    (warning,) = [each for each in verdict["warnings"] if "left out" in each]
    assert warning.startswith(f"left out of the history: {damage(2, 5)}")
    assert {cell["nights"] for cell in verdict["cells"] if cell["cell"].endswith("c1-10k-ipv6")} == {2}
    status, lines, _ = program(nights, "export", name_of(6), "--format", "markdown")
    assert (status, damage(2, 5) in "\n".join(lines)) == (0, True)


def test_a_record_of_schema_6_is_read_as_it_was(program, tmp_path):
    """Without checksums, which schema 7 has introduced."""
    root = tmp_path / ".ipperf"
    folder = keep(root, 0, [record(1), record(2, 1.3)], schema=6, status=1)
    rewrite(folder / "main.jsonl", events_of(folder / "main.jsonl"), checksums=False)
    status, lines, said = export(program, root, "last")
    assert (status, said, 'failures="1"' in lines) == (0, "", True)
    spoil(folder, 5)
    status, lines, said = export(program, root, "last")
    assert (status, lines, damage(0, 5) in said) == (1, "", True)
