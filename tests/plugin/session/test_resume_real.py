"""Resuming for real: sessions of three workloads on loopback, complete or killed in the middle."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.plan import plan_for
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.plugin.session.plan_text import plan_data, question_texts
from pytest_ipperf.plugin.session.resume import _check_workload, _kept
from pytest_ipperf.store import StoredWorkload, read_session
from tests.store.kept import events_of, rewrite
from tests.support.sessions.forked_python import ForkedPython, run_python
from tests.support.sessions.project_settings import STRICT
from tests.support.sessions.stopped import stopping

SUITE = """
import pytest

@pytest.mark.http
@pytest.mark.levels(connections=[1, 2, 3])
def test_http(measured, margin):
    assert measured.slowdown <= margin
"""
# The smallest design that judges.
TINY = """
from pytest_ipperf.core.design.design import DESIGNS, Design

DESIGNS["tiny"] = Design(
    name="tiny", epochs=5, blocks=1, alpha=0.05, judges=True, purpose="this test", run_connections=20
)
"""
DESIGN = "--design=paper"
ARGUMENTS = ("-p", "no:randomly", "--testbed=loopback", "--ipperf-server=embedded")
RUNS = 22
WORKLOADS = [f"loopback-http-c{count}-1k" for count in (1, 2, 3)]


class Sessions:
    """A folder with a suite, the sessions that measure there, and their records."""

    def __init__(self, folder, pytester=None):
        self.folder = folder
        self._pytester = pytester

    @staticmethod
    def arguments(*own):
        return [*ARGUMENTS, *(own if any(each.startswith("--design") for each in own) else (DESIGN, *own))]

    def command(self, *arguments):
        return ["-m", "pytest", *self.arguments(*arguments)]

    def ask(self, *arguments):
        """Run in this process, which is faster, if nothing is measured; the designs of its conftest go with it."""
        before = dict(DESIGNS)
        try:
            result = self._pytester.runpytest_inprocess(*self.arguments(*arguments))
        finally:
            DESIGNS.clear()
            DESIGNS.update(before)
        return result.ret, result.stdout.str() + result.stderr.str()

    def run(self, *arguments):
        done = run_python(self.command(*arguments), cwd=self.folder)
        return done.returncode, done.stdout + done.stderr

    def interrupted(self, number, *arguments, runs):
        """Run a session that is sent a signal after so many runs, at which it waits for that."""
        known = set(self.names)
        with ForkedPython(
            self.command(*arguments),
            cwd=self.folder,
            env=stopping(self.folder, runs),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as inner:
            try:
                end = time.monotonic() + 120
                while True:
                    new = [name for name in self.names if name not in known]
                    if new and len(self.events(new[0], "run")) >= runs:
                        break
                    assert inner.poll() is None, inner.communicate()[0]
                    assert time.monotonic() < end, "no run in two minutes"
                    time.sleep(0.02)
                inner.send_signal(number)
                with contextlib.suppress(ProcessLookupError):  # nothing is left of it if that has killed it
                    os.killpg(inner.pid, signal.SIGCONT)
                said = inner.communicate(timeout=120)[0]
            finally:
                inner.kill()
        return inner.returncode, said

    @property
    def names(self):
        """Return the names in the order of their beginning, which the names show only to the second."""
        return sorted((path.name for path in (self.folder / ".ipperf" / "runs").glob("*")), key=self.began)

    def began(self, name):
        return next((event["at"] for event in self.events(name, "session")), time.time())

    def journal(self, name, writer="main"):
        return self.folder / ".ipperf" / "runs" / name / f"{writer}.jsonl"

    def events(self, name, kind=""):
        """Return the events of a session, without incomplete lines."""
        events = [
            json.loads(line)
            for path in sorted(self.journal(name).parent.glob("*.jsonl"))
            for line in path.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]
        return [event for event in events if kind in ("", event["event"])]

    def measured(self, name):
        """Return the workloads whose runs a session has measured."""
        return list(dict.fromkeys(event["workload"] for event in self.events(name, "run")))

    def change(self, name, old, new):
        path = self.journal(name)
        text = "".join(f"{json.dumps(event)}\n" for event in events_of(path))
        assert old in text
        rewrite(path, map(json.loads, text.replace(old, new).splitlines()))


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory):
    """A folder in which one session has measured everything, with its output."""
    sessions = Sessions(tmp_path_factory.mktemp("once"))
    (sessions.folder / "test_it.py").write_text(SUITE)
    (sessions.folder / "pyproject.toml").write_text(STRICT)
    status, said = sessions.run()
    assert status == NOTHING_DECIDED, said
    return sessions, said


@pytest.fixture
def sessions(measured_once, pytester):
    """A copy of that folder."""
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(measured_once[0].folder, pytester.path, ignore=left_out, dirs_exist_ok=True)
    return Sessions(pytester.path, pytester)


def the_tables(said):
    """Return the tables of an output, without the note on their origin."""
    text = said.partition("= measurements =")[2].partition("\nmean: ")[0]
    return [line for line in text.splitlines() if line.strip("= ") and "reused" not in line]


def test_what_is_complete_is_not_measured_again_and_gives_the_same_tables(measured_once, sessions):
    (first,) = sessions.names
    status, said = sessions.run("--ipperf-resume=last")
    assert status == NOTHING_DECIDED, said
    (second,) = set(sessions.names) - {first}
    assert sessions.measured(first) == WORKLOADS
    assert sessions.measured(second) == []
    seed = sessions.events(first, "session")[0]["seed"]
    assert f"ipperf: resuming session {sessions.journal(first).parent}, from which order and seed are taken" in said
    assert f"; seed {seed}\n" in said
    assert f"ipperf: 3 of 3 workloads are reused from session {first}\n" in said
    assert f"reused from session {first}, which measured them: 3 cells (see the tables)\n" in said
    assert f"reused from session {first}: 1, 2, 3 connections\n" in said
    assert "the hosts have changed" not in said
    assert the_tables(said) == the_tables(measured_once[1])
    records = [
        (record["taken_from"], record["test"], record["reference"]) for record in sessions.events(second, "record")
    ]
    assert records == [(first, record["test"], record["reference"]) for record in sessions.events(first, "record")]
    assert [event["session"] for event in sessions.events(second, "taken")] == [first] * 3
    for name in ("table-3-1.txt", "table-3-2.csv", "table-6-1.csv", "response-times.csv"):
        assert (sessions.journal(second).parent / "tables" / name).stat().st_size > 100


def test_a_session_that_was_killed_loses_the_workload_in_flight_alone(sessions):
    shutil.rmtree(sessions.folder / ".ipperf")
    status, _ = sessions.interrupted(signal.SIGKILL, runs=RUNS + 5)
    assert status == -signal.SIGKILL
    (first,) = sessions.names
    assert [event["workload"] for event in sessions.events(first, "complete")] == WORKLOADS[:1]
    status, said = sessions.run("--ipperf-resume=last")
    assert status == NOTHING_DECIDED, said
    second = sessions.names[-1]
    assert sessions.measured(second) == WORKLOADS[1:]
    assert f"ipperf: 1 of 3 workloads are reused from session {first}\n" in said
    assert re.search(
        rf"ipperf: measured anew: {WORKLOADS[1]}: broken off there: it ended after \d+ of {RUNS} runs", said
    )
    assert f"reused from session {first}: 1 connections\n" in said
    assert f"plan: 2 workloads, 1 epochs x 10 blocks (design paper), {2 * RUNS} runs, " in said
    assert [record["taken_from"] for record in sessions.events(second, "record")] == [first, "", ""]
    # Runs measured later have the order that they would have had.
    order = {event["workload"]: event["order"] for event in sessions.events(second, "workload")}
    assert order[WORKLOADS[1]] == sessions.events(first, "workload")[1]["order"]


def test_a_workload_that_was_begun_goes_on_after_its_last_whole_epoch(sessions):
    """TINY has five epochs of one block, so four runs in each; the session is killed in the third."""
    shutil.rmtree(sessions.folder / ".ipperf")
    (sessions.folder / "conftest.py").write_text(TINY)
    arguments = ("--design=tiny", "-k", "c1", "--ipperf-inconclusive=report")
    status, _ = sessions.interrupted(signal.SIGKILL, *arguments, runs=9)
    assert status == -signal.SIGKILL
    (first,) = sessions.names
    status, _ = sessions.interrupted(signal.SIGKILL, *arguments, "--ipperf-resume=last", runs=13)
    second = sessions.names[-1]
    status, said = sessions.run(*arguments, "--ipperf-resume=last")
    third = sessions.names[-1]
    earlier = sessions.events(second, "run")
    assert len(earlier) < 20
    assert len({first, second, third}) == 3
    kept = len(earlier) // 4 * 4
    assert f"ipperf: {WORKLOADS[0]} goes on after the {kept} runs of session {second}\n" in said
    runs = sessions.events(third, "run")
    places = [(run["epoch"], run["block"], run["slot"]) for run in runs]
    assert places == [(epoch, block, slot) for epoch in range(5) for block in (-1, 0) for slot in (0, 1)]
    for before, after in ((sessions.events(first, "run")[:8], earlier), (earlier[:kept], runs)):
        for old, new in zip(before, after, strict=False):
            assert (old["values"], old["began_at"]) == (new["values"], new["began_at"])
    measured = read_session(sessions.journal(third).parent).workloads[WORKLOADS[0]]
    assert len([*measured.samples()]) == 20  # all of them, as their checksums say
    assert [record["epochs"] for record in sessions.events(third, "record")] == [5]
    assert sessions.events(third, "begun")[0]["session"] == second


def test_what_a_session_was_to_go_on_with_and_did_not_reach_is_passed_on(sessions):
    shutil.rmtree(sessions.folder / ".ipperf")
    (sessions.folder / "conftest.py").write_text(TINY)
    arguments = ("--design=tiny", "--ipperf-resume=last", "-k", "c1")
    sessions.interrupted(signal.SIGKILL, "--design=tiny", "-k", "c1", runs=9)
    sessions.interrupted(signal.SIGKILL, *arguments, runs=1)  # the journal is cut off below
    first, second = sessions.names
    events = sessions.events(second)
    names = [event["event"] for event in events]
    rewrite(sessions.journal(second), events[: names.index("begun") + 1])
    _, said = sessions.ask(*arguments, "--collect-only")
    assert f"{WORKLOADS[0]} goes on after the 8 runs of session {first}\n" in said


def test_a_workload_that_the_budget_stopped_goes_on(sessions):
    sessions.change(sessions.names[0], '"stopped": "", "seconds"', '"stopped": "of the budget", "seconds"')
    _, said = sessions.ask("--ipperf-resume=last", "--collect-only")
    for workload in WORKLOADS:
        assert f"ipperf: {workload} goes on after the {RUNS} runs of session {sessions.names[0]}\n" in said


@pytest.mark.evidence
def test_a_resumed_session_can_itself_be_broken_off_and_resumed(sessions):
    """The third session reuses from the first what the second took over, also what the second did not reach."""
    shutil.rmtree(sessions.folder / ".ipperf")
    status, _ = sessions.interrupted(signal.SIGKILL, runs=RUNS + 5)
    (first,) = sessions.names
    status, said = sessions.interrupted(signal.SIGINT, "--ipperf-resume=last", runs=RUNS + 5)
    assert status == pytest.ExitCode.INTERRUPTED, said
    assert "BROKEN OFF: 0 of 3 cells measured; go on with --ipperf-resume=last" in said
    second = sessions.names[-1]
    assert sessions.measured(second) == WORKLOADS[1:]
    status, said = sessions.run("--ipperf-resume=last")
    assert status == NOTHING_DECIDED, said
    third = sessions.names[-1]
    assert sessions.measured(third) == WORKLOADS[2:]
    assert [record["taken_from"] for record in sessions.events(third, "record")] == [first, second, ""]
    shutil.rmtree(sessions.journal(first).parent)
    _, said = sessions.ask(f"--ipperf-resume=.ipperf/runs/{third}", "--collect-only")
    for name in (second, third):
        assert f"ipperf: 1 of 3 workloads are reused from session {name}\n" in said
    assert f"measured anew: {WORKLOADS[0]}: session {sessions.journal(first).parent} is not there\n" in said


@pytest.mark.parametrize("arguments", [[], ["-nauto"]], ids=["alone", "xdist"])
def test_a_session_that_is_broken_off_in_its_first_workload_tells_the_way_back(sessions, arguments):
    shutil.rmtree(sessions.folder / ".ipperf")
    status, said = sessions.interrupted(signal.SIGINT, *arguments, runs=3)
    assert status == pytest.ExitCode.INTERRUPTED, said
    (name,) = sessions.names
    assert f"records: {sessions.journal(name).parent}\n" in said
    banner = "BROKEN OFF: 0 of 3 cells measured; go on with --ipperf-resume=last"
    lines = said.splitlines()
    begun = next(at for at, line in enumerate(lines, 1) if re.match("=+ measurements =", line))
    assert next(filter(None, lines[begun:])) == banner
    with_page = sessions.journal(name).parent / "report.html"
    assert banner in with_page.read_text(encoding="utf-8")
    status, said = sessions.ask("--ipperf-resume=last", "--collect-only")
    assert status == pytest.ExitCode.OK, said
    assert f"ipperf: resuming session {sessions.journal(name).parent}" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--design=smoke"],
            "had --design paper, and this one has smoke; use the same, or measure without --ipperf-resume",
        ),
        (["--reference=ipv6"], "had --reference ipv4, and this one has ipv6; "),
        (["--client=library"], "had --client lean, and this one has library; "),
        (["--ipperf-server=auto"], "had --ipperf-server embedded, and this one has auto; "),
        (["--ipperf-deadline=5s"], r"had --ipperf-deadline 10\.0, and this one has 5\.0; "),
        (["--ipperf-reboot=yes"], "had --ipperf-reboot no, and this one has yes; "),
        (["--ipperf-seed=3"], r"had the seed \d+, and this one has --ipperf-seed=3; leave it out"),
    ],
)
def test_another_question_is_refused_before_anything_is_measured(sessions, arguments, words):
    status, said = sessions.ask("--ipperf-resume=last", *arguments)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert re.search(rf"^ERROR: --ipperf-resume: session {sessions.names[0]} {words}", said, re.MULTILINE), said
    assert len(sessions.names) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ipperf-resume=elsewhere"], r"session \S+/elsewhere is not there"),
        (["--ipperf-resume=."], r"session \S+ has no records: no event log in it begins with an event 'session'"),
        (["--ipperf-resume=last", "--ipperf-records=new"], r"there is no session in \S+/new/runs yet"),
    ],
)
def test_a_session_that_is_not_there_is_named(sessions, arguments, words):
    status, said = sessions.ask(*arguments)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert re.search(rf"^ERROR: --ipperf-resume: {words}$", said, re.MULTILINE), said


CHANGES = {
    "arms": ('"warmups": [', '"warmups": ["ipv6-tunnel", ', "its arms were ipv4, ipv6, ipv6-tunnel there"),
    "hosts": ('"ipv4": "127.0.0.1"', '"ipv4": "127.0.0.9"', "testbed loopback had other hosts there"),
    "trouble": ('"trouble": {}', '"trouble": {"ipv6": "the proof failed"}', "ipv6 had trouble there: the proof failed"),
    "bytes": ('"offset": ', '"offset": 9', "not all of its samples are there"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_workload_that_answers_another_question_is_measured_anew_and_says_why(sessions, change):
    old, new, words = change
    sessions.change(sessions.names[0], old, new)
    _, said = sessions.ask("--ipperf-resume=last", "--collect-only")
    assert "ipperf: 0 of 3 workloads are reused" in said
    for workload in WORKLOADS:
        assert f"ipperf: measured anew: {workload}: {words}\n" in said


def test_samples_that_do_not_give_the_value_are_not_believed(sessions):
    """Zeros stand for a file damaged by a loss of power."""
    samples = sessions.journal(sessions.names[0]).with_suffix(".f64")
    samples.write_bytes(bytes(6 * 8) + samples.read_bytes()[6 * 8 :])
    status, said = sessions.run("--ipperf-resume=last")
    assert status == NOTHING_DECIDED, said
    assert sessions.measured(sessions.names[-1]) == WORKLOADS[:1]
    words = rf"^measured anew: {WORKLOADS[0]}: its records cannot be used \(.*the samples that were written\)$"
    assert re.search(words, said, re.MULTILINE), said
    assert sessions.events(sessions.names[-1], "record")[0]["taken_from"] == ""


def test_a_server_that_held_something_else_is_measured_anew(sessions):
    (sessions.folder / "test_it.py").write_text(
        SUITE
        + "@pytest.fixture\n"
        + "def server_state(server_state):\n"
        + "    from dataclasses import replace\n"
        + "    return replace(server_state, pages={'/other.html': b'x'})\n"
    )
    status, said = sessions.run("--ipperf-resume=last", "-k", "c1-")
    assert status == NOTHING_DECIDED, said
    assert sessions.measured(sessions.names[-1]) == WORKLOADS[:1]
    assert f"measured anew: {WORKLOADS[0]}: its server held other content there (server_state)\n" in said


def test_what_turns_out_to_be_measured_anew_is_counted(sessions):
    (sessions.folder / "test_it.py").write_text(
        SUITE
        + "from pytest_ipperf.plugin.display import progress\n"
        + "def noted(session, plan, position=progress._position):\n"
        + "    found = position(session, plan)\n"
        + "    with open('positions', 'a') as file:\n"
        + "        print(found and (found.number, found.count, found.runs_after), file=file)\n"
        + "    return found\n"
        + "progress._position = noted\n"
        + "@pytest.fixture\n"
        + "def server_state(server_state):\n"
        + "    from dataclasses import replace\n"
        + "    return replace(server_state, pages={'/other.html': b'x'})\n"
    )
    sessions.run("--ipperf-resume=last")
    assert sessions.measured(sessions.names[-1]) == WORKLOADS
    assert (sessions.folder / "positions").read_text().split("\n")[:-1] == ["None", "(2, 2, 0)", "(3, 3, 0)"]


def test_under_xdist_the_reason_of_what_is_measured_anew_comes_from_the_worker(sessions):
    first = sessions.names[0]
    samples = sessions.journal(first).with_suffix(".f64")
    samples.write_bytes(bytes(6 * 8) + samples.read_bytes()[6 * 8 :])
    status, said = sessions.run("--ipperf-resume=last", "-n1", "--connections=1,2")
    assert status == NOTHING_DECIDED, said
    words = rf"^measured anew: {WORKLOADS[0]}: (its records cannot be used \(.*the samples that were written\))$"
    found = re.search(words, said, re.MULTILINE)
    assert found, said
    second = sessions.names[-1]
    assert sessions.measured(second) == WORKLOADS[:1]
    assert [(event["workload"], event["why"]) for event in sessions.events(second, "anew")] == [
        (WORKLOADS[0], found[1])
    ]
    assert list(read_session(sessions.folder / ".ipperf" / "runs" / second).reused) == WORKLOADS[1:2]


def test_hosts_that_have_changed_since_are_told(sessions):
    name = sessions.names[0]
    kernel = sessions.events(name, "epoch")[0]["fingerprint"]["server"]["kernel"]
    sessions.change(name, f'"kernel": "{kernel}"', '"kernel": "2.4.20"')
    _, said = sessions.run("--ipperf-resume=last", "--connections=1,4")
    for role in ("client", "server"):
        assert (
            f"the hosts have changed: {role} of testbed loopback: kernel was 2.4.20 in session {name} "
            f"and is {kernel} now\n"
        ) in said


def test_a_design_that_judges_judges_what_it_has_reused(sessions):
    """Also with another margin than before, as its single look does not depend on it.

    Both are so large that no response time is capped, as times beyond ten means are for a small one.
    """
    (sessions.folder / "conftest.py").write_text(TINY)
    arguments = ("--design=tiny", "--connections=20")
    assert sessions.run(*arguments, "--margin=100000%")[0] == 0
    first = sessions.names[-1]
    status, said = sessions.run(*arguments, "--margin=100000%", "--ipperf-resume=last")
    assert (status, sessions.measured(sessions.names[-1])) == (0, []), said
    status, said = sessions.run(*arguments, "--margin=90000%", f"--ipperf-resume=.ipperf/runs/{first}")
    assert (status, sessions.measured(sessions.names[-1])) == (0, []), said
    records = [sessions.events(name, "record")[0] for name in (first, sessions.names[-1])]
    assert records[0]["low"] == records[1]["low"]
    assert (records[1]["margin_fraction"], records[1]["taken_from"]) == (900, first)


def test_a_design_of_the_same_name_and_another_size_is_refused_with_both_sizes(sessions):
    """As a session of `standard` was, when that had looks after 10, 20 and 30 epochs."""
    old = json.dumps({**dataclasses.asdict(DESIGNS["paper"]), "epochs": 10, "blocks": 3, "looks": 3, "alpha": 0.0221})
    new = json.dumps(dataclasses.asdict(DESIGNS["paper"]))
    sessions.change(sessions.names[0], f'"design": {new}', f'"design": {old}')
    status, said = sessions.ask("--ipperf-resume=last")
    assert status == pytest.ExitCode.USAGE_ERROR
    sentence = (
        f"session {sessions.names[0]} had --design paper (1 to 3 looks of 10 epochs x 3 blocks at 2.21 %), and this "
        "one has paper (1 epochs x 10 blocks at 5 %); measure without --ipperf-resume"
    )
    assert f"ERROR: --ipperf-resume: {sentence}\n" in said
    assert len(sessions.names) == 1


def test_where_looks_depend_on_the_margins_others_are_another_question():
    workload = Workload(testbed="lab", protocol="http", client="lean", connections=1, payload_bytes=1024)
    four, six = Arm(4, "native"), Arm(6, "native")
    plan = plan_for(workload, [four, six], DESIGNS["standard"], 7)
    complete = {
        "trouble": {}, "stopped": "", "testbed": json.loads(json.dumps(dataclasses.asdict(BUILTIN["lab"]))),
        "asked": question_texts({six: [Question("response_time", Margin(0.1))]}),
    }  # fmt: skip
    kept = StoredWorkload(Path("main.f64"), {"order": plan_data(plan)}, complete=complete)
    settings: Any = SimpleNamespace(inventory=BUILTIN, reference=Arm(4, "native"), models={})
    _check_workload(kept, plan, {six: [Question("response_time", Margin(0.1))]}, settings, knows_arms=True)
    _check_workload(kept, plan, {six: []}, settings, knows_arms=False)  # as in the controller of xdist
    with pytest.raises(UsageError, match=r"^the tests asked other questions there$"):
        _check_workload(kept, plan, {six: [Question("response_time", Margin(0.2))]}, settings, knows_arms=True)
    other = plan_for(workload, [four, six], DESIGNS["standard"], 8)
    with pytest.raises(UsageError, match=r"^its order was another there$"):
        _check_workload(kept, other, {six: [Question("response_time", Margin(0.1))]}, settings, knows_arms=True)


def test_under_xdist_a_worker_takes_over_what_another_process_measured(sessions):
    first = sessions.names[0]
    status, said = sessions.run("--ipperf-resume=last", "-n1", "--connections=1,2,4")
    assert status == NOTHING_DECIDED, said
    second = sessions.names[-1]
    assert sessions.measured(second) == ["loopback-http-c4-1k"]
    assert f"ipperf: 2 of 3 workloads are reused from session {first}\n" in said
    assert sorted(record["taken_from"] for record in sessions.events(second, "record")) == ["", first, first]
    status, said = sessions.run("--ipperf-resume=last", "--connections=1,2,4")
    assert status == NOTHING_DECIDED, said
    assert sessions.measured(sessions.names[-1]) == []


def test_an_epoch_in_which_an_arm_had_trouble_is_measured_anew():
    """Its runs would otherwise be compared with those of another set-up, as if they were of one block."""
    workload = Workload(testbed="lab", protocol="http", client="lean", connections=1, payload_bytes=1024)
    plan = plan_for(workload, [Arm(4, "native"), Arm(6, "native")], DESIGNS["smoke"], 1)
    every = [
        {"epoch": epoch.number, "block": block, "slot": slot, "arm": str(arm)}
        for epoch in plan.epochs
        for block, slot, arm in epoch.places()
    ]
    epochs: list[Any] = [{"epoch": 0}, {"epoch": 1}]

    def kept(runs):
        return _kept(StoredWorkload(Path("none.f64"), {}, epochs, runs), plan).runs

    assert kept(every) == every
    assert kept(every[:-1]) == every[:4]
    with pytest.raises(UsageError, match="broken off there: it ended after 4 of 8 runs"):
        kept([run for run in every if run["arm"] == "ipv4"])
