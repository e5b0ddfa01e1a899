"""Measuring for real, with servers, agents and namespaces; and the end when a part of it is killed."""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ipperf.lab.netns import namespaces
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.servers import SERVERS
from tests.support.hosts.agents import NEW_AGENTS
from tests.support.needs import require
from tests.support.sessions.forked_python import ForkedPython
from tests.support.sessions.project_settings import GLANCE

NATIVE = ("--transport=native", "--ipperf-server=embedded")
SMOKE = ("--design=smoke", "--connections=2", *NATIVE)
# Long enough to be killed in the middle, and no longer than necessary.
LONG = ("--design=quick", "--connections=20", *NATIVE)
# What goes on after a fault is measured to its end: by the smallest design that judges, with runs long enough to be
# struck.
SHORT = """
from pytest_ipperf.core.design.design import DESIGNS, Design
from tests.support.sessions.project_settings import GLANCE

DESIGNS["short"] = Design(
    name="short", epochs=5, blocks=1, alpha=0.05, judges=True, purpose="this test", run_connections=90
)
"""

needs_lab = pytest.mark.skipif(bool(namespaces.unusable()), reason=f"the lab cannot be built: {namespaces.unusable()}")


def needs(server: str):
    why = SERVERS[server].missing()
    return pytest.mark.skipif(bool(why), reason=why or "-")


def events(project, kind: str) -> list[dict]:
    """Return the events of a kind in the journals of all sessions."""
    return [line for line in project.kept() if line["event"] == kind]


def ours(folder: str) -> dict[int, str]:
    """Return the command lines of processes that work in `folder`, or name it there or in their environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it may end meanwhile
            words, command = [(entry / name).read_bytes().decode(errors="replace") for name in ("environ", "cmdline")]
            if any(folder in text for text in (words, command, str((entry / "cwd").readlink()))):
                found[int(entry.name)] = command.replace("\0", " ")
    found.pop(os.getpid(), None)
    return found


class Killable:
    """An inner pytest with a TMPDIR of its own, all of whose descendants are known by a word in their environment.

    A context manager, which kills it at the end in any case.
    """

    def __init__(self, project, testbed: str, *arguments: str) -> None:
        self.tmp = project.pytester.path / "tmp"
        self.tmp.mkdir()
        self.tmp.chmod(0o755)
        self.mark = str(self.tmp)
        self.process = ForkedPython(
            ["-m", "pytest", "-p", "no:randomly", f"--testbed={testbed}", *LONG, *arguments],
            cwd=project.pytester.path,
            env={**os.environ, "TMPDIR": str(self.tmp), NEW_AGENTS: "yes"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._project = project

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()

    def wait_for_runs(self, number: int) -> None:
        self.wait_for(lambda: len(events(self._project, "run")) >= number)

    def wait_for(self, true: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not true():
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < end, "no run in two minutes"
            time.sleep(0.05)

    def said(self) -> str:
        return self.process.communicate(timeout=300)[0]

    def left(self) -> tuple[list[str], list[str]]:
        """Return the processes and temporary files that are finally left."""
        end = time.monotonic() + 60
        while time.monotonic() < end and (ours(self.mark) or list(self.tmp.iterdir())):
            time.sleep(0.1)
        return [*ours(self.mark).values()], [entry.name for entry in self.tmp.iterdir()]

    def victim(self, pattern: str) -> int:
        """Return the youngest of its processes whose command line matches."""
        found = {pid for pid, command in ours(self.mark).items() if re.search(pattern, command)}
        assert found, f"no process like {pattern}"
        return max(found)


TESTBEDS = [pytest.param("lab", marks=needs_lab), "loopback"]
KILLED_ON = [pytest.param("lab", marks=[needs_lab, pytest.mark.evidence]), "loopback"]


@pytest.mark.parametrize("testbed", TESTBEDS)
def test_smtp_and_http_are_measured_over_both_families_and_no_packet_takes_the_other(project, testbed):
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.smtp
        def test_smtp(measured, margin):
            assert measured.slowdown <= margin

        @pytest.mark.http
        def test_http(measured, margin):
            assert measured.slowdown <= margin
        """
    )
    result = project.run(*SMOKE, testbed=testbed)
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["HTTP response time*", "*server aiohttp *(embedded)*", "SMTP *", "*server aiosmtpd *"])
    runs = events(project, "run")
    assert len(runs) == 16
    assert all(run["contradictions"] == [] and run["failed"] == {} and run["rows"] == 30 for run in runs)
    assert [run["proof"]["families"] for run in runs if run["arm"] == "ipv6"] == [["AF_INET6"]] * 8
    assert [list(epoch["paths"]) for epoch in events(project, "epoch")] == [["ipv4", "ipv6"]] * 4
    assert all(not path["contradictions"] for epoch in events(project, "epoch") for path in epoch["paths"].values())
    if testbed == "loopback":  # which counts no packets
        return
    for run in runs:
        other = {"ipv4": "ipv6", "ipv6": "ipv4"}[run["arm"]]
        assert run["proof"]["packets"][other] == 0
        assert run["proof"]["packets"][run["arm"]] > 3 * 30
        assert run["proof"]["protocol41"] == {each: {"in": 0, "out": 0} for each in ("client", "router", "server")}


@needs("postfix")
@needs_lab
def test_real_postfix_is_chosen_where_it_is_installed(project):
    project.pytester.makeconftest(GLANCE)
    result = project.run("--design=glance", "--connections=10,100", "--transport=native", testbed="lab")
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["*server postfix *", "* 10 * 100", "IPv4 *", "IPv6 *"])


@pytest.mark.parametrize("server", ["postfix", "apache"])
def test_a_server_program_that_cannot_run_is_an_error_with_the_reason(project, server):
    why = SERVERS[server].missing()
    if not why:
        pytest.skip(f"{server} can run here")
    protocol = SERVERS[server].protocol
    project.pytester.makepyfile(f"import pytest\n@pytest.mark.{protocol}\ndef test_it(measured): pass\n")
    result = project.run("--design=smoke", "--connections=1", f"--ipperf-server={server}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"host server: no server for {protocol}: {why}"])


@pytest.mark.parametrize("testbed", TESTBEDS)
def test_nothing_is_left_after_kill_9_of_pytest(project, testbed):
    with Killable(project, testbed) as inner:
        inner.wait_for_runs(3)
        inner.process.kill()
        inner.said()
        assert inner.left() == ([], [])
        assert len(events(project, "run")) >= 3


@pytest.mark.parametrize("testbed", TESTBEDS)
def test_ctrl_c_ends_in_order_and_leaves_nothing(project, testbed):
    with Killable(project, testbed) as inner:
        inner.wait_for_runs(3)
        os.killpg(inner.process.pid, signal.SIGINT)
        said = inner.said()
        assert inner.process.returncode == pytest.ExitCode.INTERRUPTED, said
        assert "KeyboardInterrupt" in said
        assert inner.left() == ([], [])


@pytest.mark.parametrize("testbed", KILLED_ON)
def test_an_agent_and_a_server_that_are_killed_are_errors_and_the_next_workload_goes_on(project, testbed):
    """An agent in the first workload, and a server in a run of the second; the third is measured to its end."""
    project.pytester.makeconftest(SHORT)
    with Killable(project, testbed, "--connections=30,40", "--design=short") as inner:
        inner.wait_for_runs(2)
        os.kill(inner.victim(r"python\S* -P (-u )?-c "), signal.SIGKILL)
        (first,) = {run["workload"] for run in events(project, "run")}
        inner.wait_for(lambda: sum(run["workload"] != first for run in events(project, "run")) >= 2)
        os.kill(inner.victim(r"^\S*python\S* -m pytest_ipperf.servers.aiosmtpd"), signal.SIGKILL)
        said = inner.said()
        assert re.search(r"host (client|router|server): the agent died", said), said
        assert re.search(r"host server: aiosmtpd was killed by signal 9", said), said
        assert "1 passed, " in said or "1 inconclusive" in said, said
        assert "2 errors" in said
        assert "Traceback" not in said
        assert inner.left() == ([], [])


def test_records_that_cannot_be_written_are_an_error_that_names_the_folder(project):
    blocked = project.pytester.path / "blocked"
    blocked.write_text("a file where a folder is wanted")
    result = project.run(*SMOKE, "--ipperf-records=blocked")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["records: *blocked/runs/* cannot be written (Not a directory); *--ipperf-records"])


def test_a_port_range_without_a_free_port_is_an_error_that_names_it(project):
    (project.pytester.path / "hosts.ini").write_text(
        "[testbed tight]\nclient = here\nserver = here\n[host here]\nipv4 = 127.0.0.1\nipv6 = ::1\nports = 22222\n"
    )
    result = project.run(*SMOKE, testbed="tight")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["host here: no free port in 22222-22222 on 127.0.0.1 and ::1; free one or widen *"])


@needs_lab
def test_a_machine_without_ipv6_loopback_is_an_error_and_not_a_skip(project):
    """In a network namespace of its own with IPv6 switched off."""
    identity = ["--user", "--map-root-user"] if os.geteuid() else []
    script = 'ip link set lo up; echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; exec "$@"'
    done = subprocess.run(
        ["unshare", *identity, "--net", "sh", "-c", script, "sh", sys.executable, "-m", "pytest", "-p", "no:randomly",
         "--testbed=loopback", *SMOKE],
        cwd=project.pytester.path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"},
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert re.search(r"host server: .*::1.*", done.stdout), done.stdout
    assert "1 error" in done.stdout


def test_without_rights_for_namespaces_loopback_is_used_and_the_reason_named(project):
    """A user namespace that cannot make another simulates a machine that forbids them."""
    require("unshare", "nsenter", "ip", "tc")
    path = project.pytester.path / "bin"
    path.mkdir()
    (path / "unshare").write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    (path / "unshare").chmod(0o755)
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--collect-only"]
    done = subprocess.run(command, cwd=project.pytester.path, env=env, capture_output=True, text=True, check=False)
    sentence = (
        "testbed lab cannot be built here: no rights for namespaces (unshare: unshare failed: Operation not permitted)"
    )
    assert f"ipperf: {sentence}; using loopback" in done.stdout
    assert "testbed loopback; " in done.stdout
    lacking = "testbed loopback has no tunnel, isatap: its client and server are one host"
    assert f"ipperf: left out: {lacking}, and {sentence}" in done.stdout
    done = subprocess.run(
        [*command[:-1], "--testbed=lab", *SMOKE], cwd=project.pytester.path, env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "testbed lab: cannot be built here: no rights for namespaces" in done.stdout
    assert "1 error" in done.stdout


def test_two_jobs_never_measure_on_one_machine_at_once(project):
    """Each waits for the other between workloads; the epochs of the two never overlap."""
    project.pytester.makeconftest(GLANCE)
    command = ["-m", "pytest", "-p", "no:randomly", "--testbed=loopback", *SMOKE, "--connections=3", "--design=glance"]
    with contextlib.ExitStack() as stack:
        jobs = []
        for _ in range(2):
            job = ForkedPython(command, cwd=project.pytester.path, stdout=subprocess.PIPE)
            jobs.append(stack.enter_context(job))
            stack.callback(job.kill)
        said = [job.communicate(timeout=120)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [NOTHING_DECIDED] * 2, said
    spans = []
    for file in (project.pytester.path / ".ipperf").rglob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for workload in {line["workload"] for line in lines if line["event"] == "run"}:
            times = [line["at"] for line in lines if line["event"] in ("epoch", "run") and line["workload"] == workload]
            spans.append((min(times), max(times)))
    assert len(spans) == 4
    spans.sort()
    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))
