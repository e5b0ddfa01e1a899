"""Nights in a simulated network: what they decide, print and leave, and their exit status."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.cli.night import write
from pytest_ipperf.cli.night.run import only_arguments
from pytest_ipperf.core.nightly.report import GateStatus
from pytest_ipperf.store import Archive, verdict_with_checksum
from tests.store.kept import events_of, rewrite
from tests.support.sessions.forked_python import ForkedPython, run_python

NIGHT = ["-c", "import sys; from pytest_ipperf.cli import main; sys.exit(main())", "night"]
FEW, MANY = "loopback-smtp-c1-1k", "loopback-smtp-c10-1k"
ITEM = "test_a_night.py::test_smtp_response_time[{}-ipv6]"
NOT_OURS = """
    def test_of_something_else():
        assert False, "the roof leaks"
"""

WAITS = """
    import time
    from pathlib import Path

    def test_that_waits():
        Path("waiting").touch()
        while not Path("go").exists():
            time.sleep(0.05)
"""


@pytest.fixture
def project(project):
    """A project whose runs are shorter, as there are many of them."""
    project.connections = 100
    return project


@pytest.fixture
def night(project):
    """A function that runs a night in the project's folder; returns its status, its output and any verdict."""

    def run(*arguments):
        # The names of sessions give the order of their beginnings to the second.
        while list(
            (project.pytester.path / ".ipperf" / "runs").glob(f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}*")
        ):
            time.sleep(0.05)
        argv = [*NIGHT, "--testbed=loopback", "-p", "no:randomly", "-q", *arguments]
        done = run_python(argv, cwd=project.pytester.path)
        verdicts = sorted((project.pytester.path / ".ipperf" / "nights").glob("*/verdict.json"))
        return done.returncode, done.stdout + done.stderr, json.loads(verdicts[-1].read_text()) if verdicts else None

    return run


def decisions(verdict):
    return {cell["cell"]: cell["ruling"] for cell in verdict["cells"]}


def test_a_calm_night_is_green_and_leaves_its_files(project, night):
    project.network(slower=0.01)
    status, said, verdict = night("--ipperf-output=out")
    assert status == 0, said
    assert "green: 2 of 2 cells are within the margin" in said
    assert (verdict["status"], verdict["light"], verdict["fresh_session"]) == (0, "green", None)
    assert decisions(verdict) == {f"{FEW}-ipv6": "within", f"{MANY}-ipv6": "within"}
    assert (verdict["sentinel"]["cells"], verdict["saved"], verdict["baseline"]) == (2, "night", "night")
    names = {"verdict.json", "report.html", "summary.md", "junit.xml"}
    assert {path.name for path in (project.pytester.path / "out").iterdir()} == names
    kept = project.pytester.path / ".ipperf" / "nights" / verdict["session"]
    assert {path.name for path in kept.iterdir()} == names
    assert "flagged" not in said


def test_a_slower_cell_is_measured_again_alone_and_red(project, night):
    """What the night decides, keeps of its two sessions, and shows."""
    project.network(slower={MANY: 0.2})
    status, said, verdict = night("-rA")
    assert status == 1, said
    assert decisions(verdict) == {f"{FEW}-ipv6": "within", f"{MANY}-ipv6": "exceeds"}
    assert "1 flagged; measuring again in fresh epochs" in said
    assert "1 of 2 cells is beyond the margin, confirmed in fresh epochs" in said
    # The screening has both arms and the twin of both workloads, the fresh session the flagged arm and the reference.
    assert [line.split()[0] for line in project.measured] == [FEW, MANY, MANY]
    assert project.measured[-1].split()[1:] == ["ipv4", "ipv6"]
    (red,) = [cell for cell in verdict["cells"] if cell["flagged"]]
    assert red["p_fresh"] == red["p_adjusted"] < 1e-6
    assert designs(project, verdict) == ["nightly", "confirmation"], said
    what_is_flagged_is_no_failure_of_the_screening(project, said, verdict)
    the_verdict_can_be_found_again(project, verdict)
    it_is_shown_with_its_answer_and_last_is_no_second_session(project, verdict)


def what_is_flagged_is_no_failure_of_the_screening(project, said, verdict):
    folder = project.pytester.path / ".ipperf" / "runs"
    (screening, fresh) = [
        # After the end, the session only accounts for its own time.
        [
            event
            for line in (folder / verdict[name] / "main.jsonl").read_text().splitlines()
            if (event := json.loads(line))["event"] != "time"
        ]
        for name in ("session", "fresh_session")
    ]
    assert (screening[-1]["event"], screening[-1]["status"]) == ("end", 0)
    assert (fresh[-1]["event"], fresh[-1]["status"]) == ("end", 1)  # which fails as any test does
    assert (screening[0]["saved"], fresh[0]["saved"]) == ("night", "night.fresh")
    assert "1 flagged" in said


def the_verdict_can_be_found_again(project, verdict):
    archive = Archive(project.pytester.path / ".ipperf")
    screening, fresh = archive.sessions()
    assert (screening.gate_status, fresh.gate_status, screening.saved) == (1, None, "night")
    entries = archive.history_entries(screening)
    sound = {key.cell: past.sound for key, past in entries.items() if key.metric == "response_time"}
    failures = {key.cell: past.sound for key, past in entries.items() if key.metric == "failed_share"}
    assert failures == dict.fromkeys(sound, True)
    assert sound == {f"{FEW}-ipv6": True, f"{MANY}-ipv6": False, f"{FEW}-ipv4-twin": True, f"{MANY}-ipv4-twin": True}
    archive.close()
    assert verdict["fresh_session"] == fresh.name


def it_is_shown_with_its_answer_and_last_is_no_second_session(project, verdict):
    shown = run_python([*NIGHT[:-1], "show", "last"], cwd=project.pytester.path)
    assert f"session {verdict['session']} (saved as night), the screening of a night: began " in shown.stdout
    assert f"exceeds, confirmed: {MANY}-ipv6 response_time: " in shown.stdout
    assert verdict["headline"] in shown.stdout


def test_a_named_design_replaces_both_and_neither_session_confirms_what_the_night_does(project, night):
    project.network(slower={MANY: 0.2})
    status, said, verdict = night("--design=quick", "--ipperf-confirm=yes", "-v")
    assert status == 1, said
    assert designs(project, verdict) == ["quick", "quick"], said
    assert [line.split()[0] for line in project.measured] == [FEW, MANY, MANY]
    assert "--ipperf-confirm has no effect in a night" in said


def designs(project, verdict):
    """Return the names of the designs of both sessions."""
    folder = project.pytester.path / ".ipperf" / "runs"
    logs = [folder / verdict[name] / "main.jsonl" for name in ("session", "fresh_session")]
    return [json.loads(log.read_text().splitlines()[0])["design"]["name"] for log in logs]


def test_results_for_allure_have_the_nights_decision_and_a_junit_file_of_the_ini_the_first_session(project, night):
    pytest.importorskip("allure_pytest", reason="allure-pytest is not installed (pip install allure-pytest)")
    project.network(slower={MANY: 0.2})
    _, said, verdict = night("--alluredir=results", "-o", "addopts=--junitxml=first.xml")
    (red,) = [cell for cell in verdict["cells"] if cell["flagged"]]
    results = [json.loads(file.read_text()) for file in (project.pytester.path / "results").glob("*-result.json")]
    of_session = {
        each["value"]: result for result in results for each in result["parameters"]
        if each["name"] == "session" and result["status"] != "passed"
    }  # fmt: skip
    shown = of_session[verdict["fresh_session"]]
    assert (shown["status"], shown["statusDetails"]["message"]) == ("failed", f"regression: {red['sentence']}"), said
    assert "Exceeds, confirmed." in shown["descriptionHtml"]
    assert of_session[verdict["session"]]["statusDetails"]["message"].startswith("flagged: ")
    assert (project.pytester.path / "first.xml").read_text().count("<testcase") == 4  # with the twins


def test_an_accepted_change_is_told_and_not_red_until_it_gets_worse(project, night):
    project.network(slower={MANY: 0.2})
    assert night()[0] == 1
    project.network(slower={MANY: 0.2}, noise=0.006)
    reason = ["--reason", "the new firewall", "--for", "30d", "--up-to", "25%"]
    accept = [*NIGHT[:-1], "accept", f"{MANY}-ipv6", *reason]
    assert run_python(accept, cwd=project.pytester.path).returncode == 0
    status, said, verdict = night()
    assert (status, decisions(verdict)[f"{MANY}-ipv6"]) == (0, "accepted"), said
    assert "the new firewall" in said
    project.network(slower={MANY: 0.4})
    status, said, verdict = night()
    assert (status, decisions(verdict)[f"{MANY}-ipv6"]) == (1, "exceeds"), said
    assert "worse than" in said


def test_fewer_cells_than_the_night_before_are_no_green(project, night):
    project.network()
    assert night()[0] == 0
    status, said, verdict = night("--connections=1")
    assert (status, decisions(verdict)[f"{MANY}-ipv6"]) == (GateStatus.SHRUNK, "missing"), said
    assert f"no longer measured: {MANY}-ipv6 response_time" in said
    assert night("--connections=1")[0] == GateStatus.SHRUNK  # nor in the night after
    assert night("--connections=1", "--ipperf-save=small")[0] == 0  # another name is another history


def test_a_broken_testbed_is_red_with_its_sentence(project, night):
    project.network()
    assert night()[0] == 0
    project.network(broken=[MANY])
    status, said, verdict = night()
    assert status == 1
    assert decisions(verdict)[f"{MANY}-ipv6"] == "trouble"
    assert "host server: the server died" in said


def test_a_failure_that_no_measurement_tells_of_is_red_too(project, night):
    project.network()
    project.pytester.makepyfile(test_other=NOT_OURS)
    status, said, verdict = night()
    assert (status, set(decisions(verdict).values())) == (1, {"within"}), said
    assert "ended with status 1, for a test that measures nothing" in said


def test_a_reference_that_differs_from_its_twin_decides_nothing(project, night):
    project.pytester.makepyfile(
        "\n".join(
            f"""
@pytest.mark.smtp
@pytest.mark.levels(connections=[{count}], payload=["1k"])
def test_{count}(measured, margin):
    assert measured.slowdown <= margin
"""
            for count in range(1, 8)
        ).replace("\n@", "import pytest\n@", 1)
    )
    project.network(slower=0.0, twin=0.05)
    status, said, verdict = night()
    assert (status, verdict["light"]) == (GateStatus.UNSTABLE, "unstable"), said
    assert "nothing else of this night can be trusted" in said


def earlier_nights(root, count, spread):
    """Copy the only session into the past so many times, each with slightly different changes."""
    (now,) = (root / "runs").iterdir()
    draw = random.Random(1)
    for number in range(count):
        folder = root / "runs" / f"20260101T0000{number:02}Z-000000"
        folder.mkdir()
        events = []
        for event in events_of(now / "main.jsonl"):
            if event["event"] in ("session", "record", "end"):
                event["at"] = 1.7e9 + 86400 * number
                if event["event"] == "record":
                    moved = draw.gauss(0, spread)
                    event |= {name: event[name] + moved for name in ("estimate", "low", "high")}
                events.append(event | ({"files": {}} if event["event"] == "end" else {}))
        rewrite(folder / "main.jsonl", events)
        verdict = json.loads((root / "nights" / now.name / "verdict.json").read_text())
        verdict |= {"session": folder.name, "began_at": 1.7e9 + 86400 * number}
        (root / "nights" / folder.name).mkdir()
        (root / "nights" / folder.name / "verdict.json").write_bytes(verdict_with_checksum(verdict))


@pytest.mark.parametrize(("slower", "decision"), [(0.0, "within"), (0.05, "worse")])
def test_worse_than_its_own_nights_is_red_within_the_margin(project, night, slower, decision):
    project.network()
    assert night("--connections=10")[0] == 0
    earlier_nights(project.pytester.path / ".ipperf", 20, spread=0.3)
    project.network(slower=slower, noise=0.006)
    status, said, verdict = night("--connections=10")
    assert (status, decisions(verdict)) == (decision == "worse", {f"{MANY}-ipv6": decision}), said
    assert verdict["cells"][0]["nights"] == 21
    assert ("worse than in the last nights" in said) is (decision == "worse")


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--design=fast"], 4, "no verdict: wrong usage, see above"),
        (["-k", "zilch"], 5, "no verdict: nothing was measured"),
        (["--ipperf-save=last"], 4, "'last' is not a valid session name"),
    ],
)
def test_what_measures_nothing_has_no_verdict(project, night, arguments, status, sentence):
    project.network()
    ended, said, verdict = night(*arguments)
    assert (ended, verdict) == (status, None)
    assert sentence in said


def test_xdist_gives_the_same_verdict(project, night):
    project.network(slower={MANY: 0.2})
    status, said, verdict = night("-n", "2")
    assert status == 1, said
    assert decisions(verdict) == {f"{FEW}-ipv6": "within", f"{MANY}-ipv6": "exceeds"}


def test_a_night_that_is_ended_leaves_no_verdict_and_no_process(project):
    """Its pytest ends in order when it is interrupted, and by the kernel when the night is killed."""
    project.network(slower=0.01)
    began = project.pytester.path / "began"
    project.pytester.makepyfile(
        test_long=f"""
            import pathlib, time
            def test_long():
                pathlib.Path({str(began)!r}).touch()
                time.sleep(60)
        """
    )
    # A shell ignores interrupts for its jobs in the background.
    ignored = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    for ending, prefix in (
        *((each, []) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)),
        *((each, ignored) for each in (signal.SIGTERM, signal.SIGKILL)),
    ):
        argv = [*prefix, sys.executable, *NIGHT, "-p", "no:randomly", "test_long.py"]
        with subprocess.Popen(
            argv, cwd=project.pytester.path, start_new_session=True, stdout=subprocess.PIPE
        ) as process:
            try:
                while not began.exists():  # earlier, an interruption meets an arbitrary state of pytest
                    assert process.poll() is None
                    time.sleep(0.02)
                began.unlink()
                child = _only_child(process.pid)
                process.send_signal(ending)
                status = process.wait(120)
            finally:
                process.kill()
        assert status == (-signal.SIGKILL if ending is signal.SIGKILL else 2)
        assert _gone(child)
    assert not (project.pytester.path / ".ipperf" / "nights").exists()


def test_a_night_that_was_broken_off_goes_on_where_it_was(project, night):
    project.network(slower={MANY: 0.2})
    project.pytester.makepyfile(test_zz=WAITS)
    argv = [*NIGHT, "--testbed=loopback", "-p", "no:randomly", "-q"]
    with ForkedPython(argv, cwd=project.pytester.path, stdout=subprocess.DEVNULL) as process:
        while not (project.pytester.path / "waiting").exists():
            time.sleep(0.05)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
    assert process.returncode == 2
    (project.pytester.path / "go").touch()
    status, said, verdict = night("--ipperf-resume=last")
    assert (status, decisions(verdict)) == (1, {f"{FEW}-ipv6": "within", f"{MANY}-ipv6": "exceeds"}), said
    assert [line.split()[0] for line in project.measured] == [FEW, MANY, MANY]  # the last in fresh epochs


def test_what_a_test_asks_in_fresh_epochs_alone_is_decided_too(project, night):
    """Its first assertion ends the test in the screening, and is refuted by the fresh epochs."""
    project.network(slower=0.2)
    project.pytester.makepyfile(
        test_two="""
        import pytest

        @pytest.mark.http
        @pytest.mark.levels(connections=[1])
        def test_two(measured, request):
            fresh = request.config.getoption("--ipperf-only")
            assert measured.slowdown <= ("50%" if fresh else "10%")
            assert measured.p95 <= "1us"
        """
    )
    status, said, verdict = night("test_two.py")
    assert status == 1, said
    found = {cell["metric"]: cell["ruling"] for cell in verdict["cells"]}
    assert found == {"response_time": "within", "p95<=1us": "exceeds"}


def test_a_night_tells_which_margins_of_the_last_one_it_did_not_ask(project, night):
    project.network(slower=0.02)
    tests = "".join(
        f"""
@pytest.mark.http
@pytest.mark.levels(connections=[1])
def test_{name}(measured):
    assert measured.slowdown <= "{margin}"
"""
        for name, margin in (("loose", "50%"), ("strict", "10%"))
    )
    project.pytester.makepyfile(test_two=f"import pytest\n{tests}")
    assert night("test_two.py")[2]["warnings"] == []
    status, said, verdict = night("test_two.py", "-k", "loose")
    cell = "loopback-http-c1-1k-ipv6 response_time"
    assert (status, verdict["warnings"]) == (
        0, [f"margins that the last night asked and this one did not: 1: {cell} (10%)"],
    ), said  # fmt: skip
    assert night("test_two.py", "-k", "loose")[2]["warnings"] == []


def test_a_night_tells_what_its_budget_left_out(project, night):
    project.network(run_s=1.0)
    status, said, verdict = night("--ipperf-budget=75s")
    assert (status, len(verdict["cells"])) == (0, 1), said
    (warning,) = [each for each in verdict["warnings"] if "budget" in each]
    assert warning.startswith("not measured, as --ipperf-budget was spent: 2 items: "), said
    assert warning in " ".join(said.split())


def test_a_night_after_one_with_a_later_date_says_so(project, night):
    project.network()
    _, _, verdict = night()
    folder = project.pytester.path / ".ipperf" / "nights" / verdict["session"]
    document = json.loads((folder / "verdict.json").read_text())
    del document["crc32"]
    document["began_at"] += 86400
    (folder / "verdict.json").write_bytes(verdict_with_checksum(document))
    said = night()[1]
    assert f"night {verdict['session']} began later than now, by the clock of the machine that measured it" in said


def test_a_complete_night_is_not_decided_again_as_a_new_one(project, night):
    project.network()
    assert night()[0] == 0
    nights = list((project.pytester.path / ".ipperf" / "nights").iterdir())
    for _ in range(2):  # the second time, the last session is one that measured nothing
        status, said, _ = night("--ipperf-resume=last")
        assert status == 5, said
        assert (
            "no verdict: nothing was measured, as --ipperf-resume names a night that is complete; leave it out" in said
        )
    assert list((project.pytester.path / ".ipperf" / "nights").iterdir()) == nights


@pytest.mark.evidence
def test_a_night_whose_second_session_broke_off_goes_on_with_its_first(project, night):
    """The last session has another name then; that of the night is resumed."""
    project.network(slower={MANY: 0.2})
    _, _, verdict = night()
    (project.pytester.path / ".ipperf" / "nights" / verdict["session"] / "verdict.json").unlink()
    status, said, again = night("--ipperf-resume=last")
    assert (status, decisions(again)[f"{MANY}-ipv6"]) == (1, "exceeds"), said
    assert [line.split()[0] for line in project.measured] == [FEW, MANY, MANY, MANY]  # both in fresh epochs
    assert {cell["nights"] for cell in again["cells"]} == {0}  # its own data do not belong to its history


LOSES = """
    from pytest_ipperf.core.portable.errors import LabError
    from pytest_ipperf.store import EventLog

    kept = EventLog.append

    def append(self, event, facts):
        if event == "record" and facts["connections"] == 10:
            raise LabError("records: the disk is full")
        kept(self, event, facts)

    EventLog.append = append
"""


def test_an_answer_that_could_not_be_kept_is_no_green(project, night):
    project.network()
    conftest = project.pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + textwrap.dedent(LOSES))
    status, said, verdict = night()
    assert (status, verdict["light"]) == (1, "red"), said
    sentences = {each["nodeid"]: each["sentence"] for each in verdict["troubles"]}
    assert sentences.pop("records") == "records: the disk is full"
    assert set(sentences.values()) == {"not measured: the session was broken off before"}  # those without an answer


def test_a_worker_that_died_is_trouble_of_its_item(project, night):
    project.network()
    project.pytester.makepyfile(test_dies="import os\ndef test_dies():\n    os._exit(1)\n")
    status, said, verdict = night("-n", "1")
    assert status == 1, said
    assert [each["nodeid"] for each in verdict["troubles"]] == ["test_dies.py::test_dies"]


def test_a_pytest_that_was_killed_is_said_to_be(project, night):
    project.network()
    project.pytester.makepyfile(test_z="import os\ndef test_z():\n    os.kill(os.getpid(), 9)\n")
    status, said, verdict = night()
    assert (status, verdict) == (3, None)
    assert "pytest was killed by signal 9; --ipperf-resume=last continues from its records" in said


def test_what_stops_a_session_early_leaves_no_flagged_cell_out(project, night):
    project.network(slower=0.2)
    status, said, verdict = night("-x")
    assert (status, decisions(verdict)) == (1, {f"{FEW}-ipv6": "exceeds", f"{MANY}-ipv6": "exceeds"}), said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--design=standard"], "--design: standard takes 5 looks, but the levels of a night are for one"),
        (["--ipperf-save="], "--ipperf-save: a night needs a name"),
        (["--baseline=nigth"], "--baseline: no session in .ipperf was saved as 'nigth'"),
        (["--ipperf-output=/proc/none"], "--ipperf-output: /proc/none cannot be made ("),
    ],
)
def test_what_a_night_cannot_be_is_said_before_it_is_measured(project, night, arguments, sentence):
    project.network()
    status, said, _ = night(*arguments)
    assert (status, sentence in said, project.measured) == (4, True, [])


def test_a_line_that_is_no_acceptance_is_found_before_anything_is_measured(project, night):
    project.network()
    (project.pytester.path / ".ipperf").mkdir()
    (project.pytester.path / ".ipperf" / "accepted.jsonl").write_text("so be it\n")
    status, said, _ = night()
    assert (status, project.measured) == (4, [])
    assert ".ipperf/accepted.jsonl:1: 'so be it' is not an acceptance" in said


def test_a_verdict_that_cannot_be_read_is_found_before_anything_is_measured(project, night):
    project.network()
    folder = project.pytester.path / ".ipperf" / "nights" / "20261122T013000Z-aa"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text("so be it\n")
    argv = [*NIGHT, "--testbed=loopback", "-p", "no:randomly"]
    done = run_python(argv, cwd=project.pytester.path)
    assert (done.returncode, project.measured) == (3, []), done.stderr
    said = "no verdict: night 20261122T013000Z-aa: .ipperf/nights/20261122T013000Z-aa/verdict.json is not a verdict"
    assert said in done.stdout


def _append(project, name, text):
    path = project.pytester.path / name
    path.write_text(path.read_text() + textwrap.dedent(text))


KILLED = "os.kill(os.getpid(), 9)"
ODD = "pytest.exit('enough', returncode=11)"
BROKEN = "raise RuntimeError('the plugin of somebody else')"


@pytest.mark.parametrize("end", [KILLED, ODD, BROKEN], ids=["killed", "odd", "broken"])
def test_a_second_session_that_breaks_off_leaves_no_verdict_and_no_status_of_one(project, night, end):
    project.network(slower={MANY: 0.2})
    _append(
        project,
        "conftest.py",
        f"""
        import os, pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(session):
            if any("--ipperf-only" in word for word in session.config.invocation_params.args):
                {end}
        """,
    )
    status, said, verdict = night()
    assert (status, verdict) == (3, None), said
    assert "1 flagged; measuring again in fresh epochs" in said
    assert "no verdict: " in said


def test_a_first_session_that_measured_nothing_and_failed_is_not_red(project, night):
    project.network()
    project.pytester.makepyfile(test_other=NOT_OURS)
    status, said, verdict = night("-k", "of_something_else")
    assert (status, verdict) == (5, None)
    assert "no verdict: nothing was measured" in said


SPOILS = """
    def pytest_unconfigure(config):
        from pathlib import Path
        for path in Path(".ipperf").glob("runs/*/main.jsonl"):
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"', b"\\0", 1), *lines[4:]]))
"""


@pytest.mark.parametrize("slower", [0.0, 0.2], ids=["green", "flagged"])
def test_a_night_whose_own_records_are_damaged_has_no_verdict(project, night, slower):
    project.network(slower=slower)
    _append(project, "conftest.py", SPOILS)
    status, said, verdict = night()
    assert (status, verdict) == (3, None), said
    assert re.search(r"no verdict: session \S+: main\.jsonl:4 is damaged \(", said), said


FILLS = """
    def pytest_unconfigure(config):
        import contextlib
        with open(".ipperf/more", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(512)):
                pass
"""


def test_a_full_disk_leaves_no_verdict_and_no_status_of_one(project):
    project.network(slower=0.01)
    _append(project, "conftest.py", FILLS)
    records = project.pytester.path / ".ipperf"
    records.mkdir()
    script = f'mount -t tmpfs -o size=4m none {records} && "$@"'
    argv = [*NIGHT, "--testbed=loopback", "-p", "no:randomly", "-q"]
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", sys.executable, *argv],
        cwd=project.pytester.path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "ermi" in done.stderr and done.returncode in (1, 32):
        pytest.skip("a disk of one's own takes root")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "cannot be written (No space left on device)" in done.stdout


def test_an_output_that_takes_nothing_gives_no_status_of_a_verdict(project):
    project.network()
    argv = [*NIGHT, "--testbed=loopback", "-p", "no:randomly", "-q"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, *argv], cwd=project.pytester.path, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode in (3, 5), done.stderr.decode()  # an error of pytest, or nothing measured


def test_a_damaged_index_and_a_damaged_baseline_are_said_beside_a_verdict(project, night):
    project.network(slower=0.01)
    assert night("--ipperf-save=old", "--connections=1")[0] == 0
    root = project.pytester.path / ".ipperf"
    (root / "index.sqlite").write_bytes(b"so be it" * 1000)
    (journal,) = (root / "runs").glob("*/main.jsonl")
    journal.write_bytes(journal.read_bytes().replace(b'"verdict"', b'"verd\0ct"'))
    status, said, verdict = night("--baseline=old", "--connections=1")
    assert status == 0, said
    assert "index.sqlite was damaged (file is not a database) and is rebuilt from the records" in said
    warnings = [each for each in verdict["warnings"] if each.startswith("left out of the history: session ")]
    assert len(warnings) == 1
    assert re.search(r": main\.jsonl:\d+ is damaged \(", warnings[0])


def test_a_report_that_cannot_be_made_costs_no_verdict(project, monkeypatch, tmp_path):
    monkeypatch.setattr(write, "FORMATS", {"html": None, "markdown": None, "junit": None})
    monkeypatch.setattr(write, "write_verdict", lambda folder, *_: folder / "verdict.json")
    decided: Any = SimpleNamespace(summary=None)
    written = write.write_night(tmp_path, decided, {})
    assert written.files == [tmp_path / "verdict.json"]
    assert [each.partition(":")[0] for each in written.troubles] == ["report.html", "summary.md", "junit.xml"]
    assert "AttributeError" in written.troubles[0]
    assert written.troubles[0].endswith("; the verdict and the records are complete")


def _only_child(pid):
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def _gone(pid, wait_s=60.0):
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_the_second_session_is_not_given_what_is_the_firsts():
    words = [
        "suites",
        "--junitxml=a.xml",
        "--junit-xml",
        "b.xml",
        "-m",
        "smtp",
        "--ipperf-resume=last",
        "--alluredir=r",
    ]
    assert only_arguments([*words, "--clean-alluredir"]) == ["suites", "-m", "smtp", "--alluredir=r"]
