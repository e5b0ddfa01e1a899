"""`pytest-ipperf show`: a session as pytest reported it, and the trend of cells."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_ipperf.cli.commands import show
from pytest_ipperf.report.terminal.verdict_lines import answer_lines
from pytest_ipperf.report.workload_kinds import how_to_read, tables
from pytest_ipperf.store import read_session_summary
from tests.store.kept import SUITE, keep, name_of, record


def test_a_session_has_the_tables_and_sentences_that_pytest_printed(program, history):
    status, lines, said = program(history, "show", "main")
    folder = history / "runs" / name_of(23)
    summary = read_session_summary(folder)
    brief, full = (tables(summary.records, detail=detail) for detail in (False, True))
    assert (status, said) == (0, "")
    assert lines[:4] == [
        f"session {name_of(23)} (saved as main): began 2026-12-15 01:30 UTC, lasted 62 s, pytest's status 1",
        "pytest-ipperf 0.1; design nightly; reference ipv4; client lean; seed 7",
        "pytest suites",
        "",
    ]
    slow = summary.records[1]
    reasons = [
        "",
        f"EXCEEDS {slow.cell}: {slow.sentence}",
        "INCONCLUSIVE test_y: inconclusive indeed",
        f"FAILED {SUITE}::test_x: failed indeed",
        "",
    ]
    answer = [line.text for line in answer_lines(summary)]
    assert [line.split()[0] for line in answer[2:6]] == ["The", "exceeds", "failed", "inconclusive"]
    assert lines[4:] == [
        *answer,
        *reasons,
        *brief,
        *how_to_read(),
        "client of lab: kernel 6.1; processors 0, 1; server apache 2.4",
        "server of lab: kernel 6.1; processors 0, 1; server apache 2.4",
        f"records: {folder}",
    ]
    _, lines, _ = program(history, "show", "main", "-v")
    assert lines[4 + len(answer) + len(reasons) :][: len(full)] == full


def test_sentences_that_are_wider_than_the_screen_are_wrapped_between_words(program, history, monkeypatch):
    _, whole, _ = program(history, "show", "main")
    monkeypatch.setattr(show, "screen_width", lambda: 60)
    _, lines, _ = program(history, "show", "main")
    (sentence,) = [line for line in whole if line.startswith("EXCEEDS ")]
    assert len(sentence) > 60
    assert sentence in " ".join(line.strip() for line in lines)
    assert all(len(line) <= 60 for line in lines if not line.startswith(("records: ", "page: ", "tables: ")))


def test_only_some_of_its_cells(program, history):
    _, lines, _ = program(history, "show", "main", "c1-", "c3-")
    summary = read_session_summary(history / "runs" / name_of(23))
    found = tables([summary.records[0], summary.records[2]], detail=False)
    assert [line.split()[0] for line in lines[4:6]] == ["within", "within"]
    assert lines[6:] == ["", "", *found, *how_to_read(), f"records: {summary.folder}"]
    _, lines, _ = program(history, "show", "-v", "main", "c1-", "c3-")
    assert lines[8:] == [*tables([summary.records[0], summary.records[2]]), f"records: {summary.folder}"]


def test_a_session_that_lies_elsewhere(program, history, tmp_path):
    failing = dataclasses.replace(record(1).test, failed={"connect refused": 2}, completed=8998)
    folder = keep(tmp_path, 0, [record(1, test=failing), record(2, 1.06, spread=0.2)])
    (folder / "tables").mkdir()
    for name in (folder, folder.relative_to(tmp_path)):
        status, lines, _ = program(tmp_path / "x", "show", name)
        assert status == 0
        assert lines[-2:] == [f"records: {name}", f"tables: {name}/tables"]
    assert f"FAILURES {record(1).cell}: 2 of 9000 connections by ipv6, 0 of 9000 by ipv4; each counts as 10 s" in lines
    assert sum(line.startswith(f"INCONCLUSIVE test_http[{record(2).cell}]: IPv6") for line in lines) == 1


def test_hosts_are_told_without_the_marks_of_a_program(program, tmp_path):
    root = tmp_path / ".ipperf"
    facts = {"cpus": [0, 1], "sysctl": {"a": "1", "b": "2 3"}, "offloads": {"tso": True, "gro": False}, "device": ""}
    keep(root, 0, [record(1)], hosts={"client": facts})
    _, lines, _ = program(root, "show", "last")
    assert lines[-2] == "client of lab: cpus 0, 1; sysctl a 1, b 2 3; offloads tso; server apache 2.4"


def test_a_session_that_was_damaged_says_so(program, tmp_path):
    root = tmp_path / ".ipperf"
    folder = keep(root, 0, [record(1), record(2)])
    path = folder / "main.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-2], lines[-2][:100] + b"\n", lines[-1]]))
    _, output, said = program(root, "show", "last")
    assert output[0].startswith(f"session {name_of(0)}: main.jsonl:5 is damaged (")
    assert output[1] == "BROKEN OFF: some cells measured; go on with --ipperf-resume=last"
    assert said == f"{output[0]}\n"


def test_the_course_of_a_cell_has_a_line_for_each_session(program, history):
    status, lines, said = program(history, "show", "c2-")
    assert (status, said) == (0, "")
    assert lines[:2] == ["lab-http-c2-10k-ipv6 response_time, version 1-apache-ipv4: 24 sessions", ""]
    assert [line.split()[0] for line in lines[3:]] == [name_of(number) for number in range(24)]
    assert [line.endswith("a lasting change begins") for line in lines[3:]] == [number == 12 for number in range(24)]
    wanted = record(2, 1.25, seed=12)
    assert f"+{wanted.estimate:.1f} %  [+{wanted.low:.1f}, +{wanted.high:.1f}]  exceeds" in lines[15]
    _, last, _ = program(history, "show", "c2-", "-n", "2")
    assert last[0].endswith(": 24 sessions; the last 2:")
    assert [" ".join(line.split()) for line in last[3:]] == [" ".join(line.split()) for line in lines[-2:]]


def test_a_course_tells_other_hosts_and_nights_without_an_interval(program, history, tmp_path):
    _, lines, _ = program(history, "show", "c1-")
    assert [line.split()[5:] for line in lines if name_of(24) in line] == [["unjudged"]]
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1), record(2, metric="loss", margin="1pp")], saved="main")
    keep(root, 1, [record(1, fingerprint="beef")])
    _, lines, _ = program(root, "show", "lab")
    assert lines[0].startswith("lab-http-c1-10k-ipv6 response_time")
    assert lines[4].endswith("other hosts than before")
    assert lines[5:7] == ["", "lab-http-c2-10k-ipv6 loss, version 1-apache-ipv4: 1 session"]
    assert " pp  [" in lines[-1]
    _, lines, _ = program(root, "show", "c1-", "--saved", "main")
    assert lines[0].endswith(": 1 session")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["c9-"], "session 'c9-' does not exist in .ipperf; *; nor does 'c9-' occur in any cell"),
        (["main", "c9-"], f"session {name_of(23)} has no cell in which 'c9-' occurs"),
        (["c2-", "c1-"], "session 'c2-' does not exist in *"),
        (["c2-", "-n", "0"], "-n 0 is not a number of 1 or more"),
        (["c2-", "--saved", "mian"], "no session saved as 'mian' has a cell in which 'c2-' occurs"),
    ],
)
def test_wrong_usage_is_one_sentence(program, history, arguments, sentence):
    status, lines, said = program(history, "show", *arguments)
    start, _, end = f"pytest-ipperf: {sentence}\n".replace(" .ipperf", f" {history}").partition("*")
    assert (status, lines) == (4, [])
    assert said.startswith(start)
    assert said.endswith(end)
    assert said.count("\n") == 1


def test_text_that_occurs_in_very_many_cells_is_not_enough(program, tmp_path):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1, cell=f"lab-{number:02d}") for number in range(21)])
    status, _, said = program(root, "show", "lab")
    such = "lab-00 response_time, lab-01 response_time, lab-02 response_time"
    assert (status, said) == (4, f"pytest-ipperf: 'lab' occurs in 21 cells, such as {such}; give a longer text\n")
