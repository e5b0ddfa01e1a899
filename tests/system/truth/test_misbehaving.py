"""Web servers that fail some connections, or are slow with some, by number: what a mean of runs hides is red.

Real sessions with a copy of the package to which the servers are added as the house adds servers. They count the
requests over IPv6 that a process has had, so that each session meets the same.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_ipperf
from tests.support.sessions.forked_python import run_python
from tests.support.sessions.project_settings import STRICT

FAULTY = Path(__file__).parents[1] / "trouble" / "faulty.py"
RUN = 30
SERVER = """
import asyncio
import socket
import sys
from pytest_ipperf.agent import faulty

class Counting(faulty.Talk):
    requests = 0

    def answer(self, text):
        Counting.requests += self.family == socket.AF_INET6
        self.misbehave(Counting.requests if self.family == socket.AF_INET6 else 0, super().answer, text)

class Loses(Counting):
    '''Resets all connections of the third run of a process, of which the first is the warm-up.'''
    def misbehave(self, number, answer, text):
        self.reset() if {first} < number <= {last} else answer(text)

class Later(Counting):
    '''Answers every 25th request two seconds later.'''
    def misbehave(self, number, answer, text):
        if number and number % 25 == 0:
            asyncio.get_running_loop().call_later(2.0, answer, text)
        else:
            answer(text)

class Shorter(Counting, faulty.Empties):
    '''Answers 200 with an empty page.'''
    def misbehave(self, number, answer, text):
        answer(text) if number else faulty.Talk.answer(self, text)

server = faulty.Faulty(__spec__.name)
if __name__ == "__main__":
    faulty._TALKS |= dict(loses=Loses, later=Later, shorter=Shorter)
    faulty.main(server.name, sys.argv[1:])
"""
SUITE = """
import pytest

@pytest.mark.http
@pytest.mark.levels(connections=[{connections}], payload=["1k"])
@pytest.mark.margin("10%", at_least="2s")
{marker}
def test_http(measured, margin):
    assert measured.slowdown <= margin
"""
DESIGN = """
import dataclasses
from pytest_ipperf.core.design.design import DESIGNS
DESIGNS["quick"] = dataclasses.replace(DESIGNS["quick"], blocks={blocks}, run_connections={run_connections})
"""

Session = Callable[..., tuple[int, dict[str, Any], list[dict[str, Any]], str]]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Measures such a server; gives the exit status, the record, the runs that count, and what was printed."""

    def run(server: str, *, connections: int = 10, blocks: int = 1, run_connections: int = RUN, marker: str = ""):
        package = tmp_path / "site" / "pytest_ipperf"
        shutil.copytree(Path(pytest_ipperf.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc.*"))
        shutil.copy(FAULTY, package / "agent" / "faulty.py")
        (package / "servers" / f"{server}_http.py").write_text(SERVER.format(first=2 * RUN, last=3 * RUN))
        (tmp_path / "test_web.py").write_text(SUITE.format(connections=connections, marker=marker))
        (tmp_path / "conftest.py").write_text(DESIGN.format(blocks=blocks, run_connections=run_connections))
        (tmp_path / "pyproject.toml").write_text(STRICT)
        argv = ["-m", "pytest", "-p", "no:randomly", "--testbed=loopback", "--ipver=6", "--ipperf-seed=1"]
        env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
        argv.append(f"--ipperf-server={server}_http")
        done = run_python(argv, cwd=tmp_path, env=env, copy_of_package=True)
        said = done.stdout + done.stderr
        (journal,) = tmp_path.glob(".ipperf/runs/*/main.jsonl")
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        (record,) = [each for each in events if each["event"] == "record"]
        return done.returncode, record, [each for each in events if each["event"] == "run"], said

    return run


def component(record: dict[str, Any], metric: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [each for each in record["components"] if each["metric"] == metric]
    assert len(found) == 1
    return found[0]


def failures(runs: list[dict[str, Any]], ipver: int) -> dict[tuple[int, int], dict[str, int]]:
    """Return the failures of an arm's runs, by epoch and block."""
    return {(each["epoch"], each["block"]): each["failed"] for each in runs if each["arm"] == f"ipv{ipver}"}


def test_a_run_of_each_epoch_that_loses_every_connection_is_red(session):
    """The response time is within its margin: the median of three blocks drops that run."""
    status, record, runs, said = session("loses", blocks=3)
    lost = {place: failed for place, failed in failures(runs, 6).items() if failed}
    assert lost == {(epoch, 1): {"talk reset": RUN} for epoch in range(6)}
    assert not any(failures(runs, 4).values())
    assert (record["metric_verdict"], record["verdict"], status) == ("within", "exceeds", 1), said
    failed = component(record, "failed_share")
    assert (failed["verdict"], failed["estimate"]) == ("exceeds", pytest.approx(100 / 3))
    assert failed["lower_bound"] > 20
    assert "EXCEEDS loopback-http-c10-1k-ipv6: " in said


def test_one_connection_in_25_that_takes_two_seconds_more_is_red_by_its_tail(session):
    """Their mean is 80 ms more, for a margin of 2 s; none of them fails."""
    # A machine that holds up either arm for less than a second neither makes connections slow nor hides those that are.
    marker = '@pytest.mark.tail("10%,1s")'
    status, record, runs, said = session("later", connections=75, run_connections=75, marker=marker)
    assert not any({**failures(runs, 6), **failures(runs, 4)}.values())
    assert (record["metric_verdict"], record["verdict"], status) == ("within", "exceeds", 1), said
    slow = component(record, "slow_share")
    assert (slow["verdict"], component(record, "failed_share")["verdict"]) == ("exceeds", "unjudged")
    assert slow["test_value"] == pytest.approx(0.04, abs=0.01)


def test_a_shorter_page_over_ipv6_is_a_failure_and_no_gain(session):
    """It would have come faster: every connection fails by its content, and none counts as completed."""
    status, record, runs, said = session("shorter")
    assert record["test"]["completed"] == 0
    kinds = {kind for failed in failures(runs, 6).values() for kind in failed}
    assert {kind.partition(":")[0] for kind in kinds} == {"content"}
    assert not any(failures(runs, 4).values())
    assert (record["verdict"], status) == ("exceeds", 1), said
    failed = component(record, "failed_share")
    assert (failed["verdict"], failed["estimate"]) == ("exceeds", 100.0)
