"""The controller shows the progress of xdist's workers from their journals."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.plan import confirming_plan, plan_for
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.plugin.display.screen import StatusLines
from pytest_ipperf.plugin.distribution.worker_progress import LogTail, WorkerStatus
from pytest_ipperf.plugin.session.plan_text import plan_data
from tests.support.sessions.xdist_workers import add_hook, run

WORKLOAD = Workload(testbed="one", protocol="smtp", client="lean", connections=10, payload_bytes=1024)
PLAN = plan_for(WORKLOAD, [Arm.parse("ipv4"), Arm.parse("ipv6")], DESIGNS["quick"], 1)
# So slow that the controller polls in between.
SLOWLY = """
    import time

    def slowly(*arguments, run=LiveTestbed.run, **keywords):
        time.sleep(0.05)
        return run(*arguments, **keywords)

    LiveTestbed.run = slowly
"""


def worker_of(folder, *events):
    """Return the status of a worker that has written these events."""
    text = "".join(f"{json.dumps({'at': 100.0 + number, **event})}\n" for number, event in enumerate(events))
    (folder / "gw0.jsonl").write_text(text)
    return WorkerStatus("gw0", folder, lambda: {str(WORKLOAD): PLAN})


BEGUN = {"event": "workload", "workload": str(WORKLOAD)}
EPOCH = {"event": "epoch", "workload": str(WORKLOAD), "server": "postfix 3.7"}
RUN = {"event": "run", "workload": str(WORKLOAD), "arm": "ipv6", "epoch": 0, "values": {"response_time": 0.0125}}


def test_a_worker_tells_what_it_measures_how_far_it_is_and_how_long_still(tmp_path):
    worker = worker_of(tmp_path, BEGUN, EPOCH, RUN)
    assert list(worker.lines()) == []
    assert worker.status == "[gw0] one-smtp-c10-1k  epoch 1/6  run 1/36  ipv6 12.5 ms  70 s left"


def test_what_stays_is_signed_with_worker_and_testbed(tmp_path):
    note = {"event": "note", "text": "waiting for host alpha"}
    worker = worker_of(tmp_path, note, BEGUN, note, EPOCH, RUN, RUN, {"event": "complete", "workload": str(WORKLOAD)})
    assert list(worker.lines()) == [
        "[gw0] ipperf: waiting for host alpha",
        "[gw0 one] ipperf: waiting for host alpha",
        "[gw0 one] measured one-smtp-c10-1k: 2 runs in 5 s, server postfix 3.7",
    ]
    assert worker.status == ""


def test_what_broke_off_is_told_with_its_runs(tmp_path):
    broken = {"event": "broken", "workload": str(WORKLOAD), "sentence": "host beta: gone"}
    worker = worker_of(tmp_path, BEGUN, EPOCH, RUN, broken)
    assert list(worker.lines()) == ["[gw0 one] broke off one-smtp-c10-1k after 1 of 36 runs: host beta: gone"]
    assert worker.status == ""


def test_fresh_epochs_are_told_like_the_first(tmp_path):
    plan = confirming_plan(WORKLOAD, PLAN.arms, DESIGNS["quick"], 1)
    named = {"workload": plan.name}
    begun = {**BEGUN, **named, "order": plan_data(plan), "confirms": True}
    worker = worker_of(tmp_path, begun, {**EPOCH, **named}, {**RUN, **named})
    assert list(worker.lines()) == [
        "[gw0 one] one-smtp-c10-1k: seems beyond a margin; measuring ipv4, ipv6 in 10 fresh epochs"
    ]
    assert worker.status == "[gw0] one-smtp-c10-1k again  epoch 1/10  run 1/140  ipv6 12.5 ms  4 min 38 s left"


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=5)), max_size=6),
    st.lists(st.integers(1, 40), min_size=1, max_size=10),
)
def test_however_lines_come_each_event_is_told_once_and_whole(tmp_path_factory, events, sizes):
    path = tmp_path_factory.getbasetemp() / "gw0.jsonl"
    data = "".join(f"{json.dumps(event)}\n" for event in events).encode()
    path.write_bytes(b"")
    read: list[Mapping[str, str]] = []
    journal, at = LogTail(path), 0
    while at < len(data):
        size = sizes[at % len(sizes)]
        with path.open("ab") as file:
            file.write(data[at : at + size])
        at += size
        read += journal.events()
    assert read == events


def test_a_line_that_was_never_ended_and_one_that_is_noise_are_left_out(tmp_path):
    path = tmp_path / "gw0.jsonl"
    assert list(LogTail(path).events()) == []
    path.write_bytes(b'\xff\xfe nothing\n[1]\n{"event": "note"}\n{"event": "bro')
    journal = LogTail(path)
    assert list(journal.events()) == [{"event": "note"}]
    assert list(journal.events()) == []


def test_events_that_lack_what_is_looked_for_stop_nothing(tmp_path):
    odd = [
        {"event": "run"},
        {"event": "workload"},
        {"event": 7},
        {"event": "look"},
        {"other": 1},
        {**RUN, "values": {}},
    ]
    worker = worker_of(tmp_path, BEGUN, EPOCH, *odd, {"event": "complete"})
    assert [line.partition(":")[0] for line in worker.lines()] == ["[gw0 one] measured one-smtp-c10-1k"]


def said(result):
    """Return the lines about measurements, without parts that differ from run to run."""
    found = [line for line in result.outlines if re.search(r"measured |broke off ", line)]
    return sorted(re.sub(r" in [\d.]+ m?s", "", re.sub(r"^\[\w+ \w+\]", " ", line)) for line in found)


def test_without_a_terminal_the_same_lines_are_told_as_without_xdist(project):
    project.network(broken=["loopback-smtp-c10-1k"], from_epoch=1)
    alone = said(run(project, "--ipperf-seed=1"))
    assert [line.split(" loopback")[0] for line in alone] == ["  broke off", "  measured"]
    result = run(project, "--ipperf-seed=1", "-n", "2")
    assert said(result) == alone
    signed = [line for line in result.outlines if re.match(r"\[gw[01] loopback\] ", line)]
    assert len(signed) == 2
    assert said(run(project, "-n", "2", "-q")) == []


def test_lines_come_before_the_outcome_that_they_explain(two_testbeds):
    result = run(two_testbeds, "--testbed=one,two", "-n", "2", "-v", testbed="")
    for bed in ("one", "two"):
        lines = [re.sub(r"\[ *\d+%\] ", "", line) for line in result.outlines]
        measured = next(place for place, line in enumerate(lines) if f"measured {bed}-smtp-c1-1k:" in line)
        passed = next(place for place, line in enumerate(lines) if "PASSED test_" in line and f"{bed}-smtp-c1-" in line)
        assert measured < passed


def on_terminal(project, *arguments):
    """Return the output for a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    root = str(Path(__file__).parents[3])
    env = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(filter(None, (root, os.getenv("PYTHONPATH"))))}
    env.pop("COLUMNS", None)
    env.pop("LINES", None)
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *arguments]
    with subprocess.Popen(command, cwd=project.pytester.path, env=env, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        sent = b""
        try:
            while read := os.read(ours, 65536):
                sent += read
        except OSError:  # the error of Linux when the other end is closed
            pass
    os.close(ours)
    return sent.decode()


def screen_of(sent):
    """Return the content of a screen after the control sequences of the status lines and of pytest's own writer."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[\d*[A-Za-z]|\x1b\[[\d;]*m|[\r\n]|[^\x1b\r\n]+", sent):
        number = int(re.sub(r"\D", "", part) or 1) if part.startswith("\x1b") and part[-1] in "ACJK" else 1
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part.endswith("A") and part.startswith("\x1b"):
            row -= number
        elif part.endswith("C") and part.startswith("\x1b"):
            column += number
        elif part == "\x1b[K":
            lines[row] = lines[row][:column]
        elif part == "\x1b[J":
            lines[row:] = [lines[row][:column]]
        elif not part.startswith("\x1b"):
            old = lines[row].ljust(column)
            lines[row] = old[:column] + part + old[column + len(part) :]
            column += len(part)
    return lines


def test_on_a_terminal_there_is_a_line_for_each_worker_and_it_leaves_no_trace(two_testbeds):
    add_hook(two_testbeds, SLOWLY)
    sent = on_terminal(two_testbeds, "--testbed=one,two", "-n", "2")
    frames = [screen_of(sent[: match.end()]) for match in re.finditer(r"\x1b\[2A\r", sent)]
    assert any(
        {line[:12] for line in frame if " left" in line} == {"[gw0] one-sm", "[gw1] two-sm"} for frame in frames
    ) or any({line[:12] for line in frame if " left" in line} == {"[gw0] two-sm", "[gw1] one-sm"} for frame in frames)
    left = screen_of(sent)
    assert not [line for line in left if " left" in line and line.startswith("[gw")]
    assert len([line for line in left if re.match(r"\[gw\d (one|two)\] measured ", line)]) == 4
    assert any("4 passed" in line for line in left)
    assert all(len(line) <= 100 for frame in frames for line in frame if line.startswith("[gw") and " left" in line)


class Reporter:
    """A reporter on a terminal that knows only ASCII."""

    isatty = True

    def __init__(self):
        self.sent = io.BytesIO()
        file = io.TextIOWrapper(self.sent, encoding="ascii", write_through=True)
        self._tw = type("Writer", (), {"_file": file, "width_of_current_line": 7})()


@pytest.fixture
def board(monkeypatch):
    """Status lines on such a terminal of 40 columns and 6 lines, and its output."""
    reporter = Reporter()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("TERM", "xterm")
    plugins = type("Plugins", (), {"get_plugin": lambda *_: reporter})()
    config: Any = type("Config", (), {"pluginmanager": plugins, "get_verbosity": lambda _: 0})()
    return StatusLines(config), reporter.sent


def test_as_many_lines_are_shown_as_fit_cut_and_in_letters_that_the_terminal_knows(board):
    shown, sent = board
    shown.show([f"[gw{number}] 3 µs " + "x" * 60 for number in range(9)])
    lines = screen_of(sent.getvalue().decode("ascii"))[1:]
    assert lines == [f"[gw{number}] 3 ?s " + "x" * 28 for number in range(3)]
    shown.clear()
    before = sent.tell()
    shown.clear()
    assert sent.tell() == before


def test_what_has_not_changed_is_not_written_again(board):
    shown, sent = board
    shown.show(["one"])
    before = sent.tell()
    shown.show(["one"])
    assert sent.tell() == before
    shown.show([])
    assert sent.getvalue().endswith(b"\x1b[J")


CRASHES = """
    import os
    from pathlib import Path

    ONCE = Path(__file__).with_name("crashed")

    def crashes(self, arm, service, workload, *, run=LiveTestbed.run, **keywords):
        if str(workload) == "two-smtp-c10-1k" and self.epochs == 2 and not ONCE.exists():
            ONCE.touch()
            os._exit(9)
        return run(self, arm, service, workload, **keywords)

    LiveTestbed.run = crashes
"""


def test_a_crashed_worker_loses_only_its_item_and_everything_measured_stays(two_testbeds):
    add_hook(two_testbeds, CRASHES)
    result = run(two_testbeds, "--testbed=one,two", "--connections=1,10,100", "-n", "2", testbed="")
    result.assert_outcomes(passed=5, failed=1)
    kept = two_testbeds.kept()
    complete = {each["workload"] for each in kept if each["event"] == "complete"}
    assert complete == {f"{bed}-smtp-c{count}-1k" for bed in ("one", "two") for count in (1, 10, 100)} - {
        "two-smtp-c10-1k"
    }
    runs = [each for each in kept if each["event"] == "run" and each["workload"] == "two-smtp-c10-1k"]
    assert len(runs) >= 12
    measured = [line for line in result.outlines if re.match(r"\[gw\d (one|two)\] measured ", line)]
    assert len(measured) == 5
    assert any(" two] measured two-smtp-c100-1k: " in line for line in measured)


KILLED = """
    import os, signal
    from pathlib import Path
    from pytest_ipperf.plugin.display.progress import Progress

    ONCE = Path(__file__).with_name("killed")

    def killed(self, result, *arguments, run=Progress.run):
        run(self, result, *arguments)
        if not ONCE.exists():
            ONCE.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    Progress.run = killed
"""


@pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")
def test_a_killed_worker_leaves_nothing_and_its_successor_measures(pytester, monkeypatch):
    """On real namespaces with real servers."""
    folder = pytester.mkdir("scratch")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("IPPERF_TEST_MARK", str(folder))
    pytester.makeconftest(KILLED)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.dns
        @pytest.mark.levels(connections=[1, 2], payload=["34"])
        def test_dns(measured, margin):
            assert measured.slowdown <= margin
    """)
    arguments = ["--testbed=pair", "--design=smoke", "--ipperf-server=embedded", "-n", "1", "-p", "no:randomly"]
    result = pytester.runpytest_subprocess(*arguments, timeout=200)
    result.stdout.fnmatch_lines(["*replacing crashed worker gw0*", "*gw1 pair] measured pair-dns-c2-34: *"])
    end = time.monotonic() + 60
    while (left := [*leftovers(str(folder)), *folder.glob("*ipperf*")]) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []


def leftovers(mark):
    """Return the processes that the inner session started, found by their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if (
                f"IPPERF_TEST_MARK={mark}".encode() in path.read_bytes().split(b"\0")
                and int(path.parts[2]) != os.getpid()
            ):
                found.append(Path(path.parent, "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            continue
    return found
