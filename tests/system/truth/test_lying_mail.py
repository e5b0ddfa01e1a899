"""A mail server that says `queued` of what it does not have never gets a green, whatever its times are.

Real sessions with a copy of the package to which a lying server was added as the house adds servers.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import pytest_ipperf
from pytest_ipperf.servers import SERVERS
from tests.support.sessions.forked_python import run_python
from tests.support.sessions.project_settings import STRICT

LIARS = Path(__file__).parents[2] / "agent" / "servers" / "lying_smtp.py"
SERVER = """
from pytest_ipperf.agent.lying import LIARS

class Liar(LIARS[{kind!r}]):
    name = "liar"

server = Liar({lie!r})
"""
SUITE = """
import pytest

@pytest.mark.smtp
@pytest.mark.levels(connections=[15], payload=["1k"])
@pytest.mark.margin("10000%", at_least="9s")
def test_smtp(measured, margin):
    assert measured.slowdown <= margin
"""
SHORT = """
import dataclasses
from pytest_ipperf.core.design.design import DESIGNS
DESIGNS["quick"] = dataclasses.replace(DESIGNS["quick"], blocks=1, run_connections=30)
"""


def session(folder, kind, lie):
    """Return the exit status, the events of its journal, and what it printed."""
    package = folder / "site" / "pytest_ipperf"
    shutil.copytree(Path(pytest_ipperf.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy(LIARS, package / "agent" / "lying.py")
    (package / "servers" / "liar.py").write_text(SERVER.format(kind=kind, lie=lie))
    (folder / "test_mail.py").write_text(SUITE)
    (folder / "conftest.py").write_text(SHORT)
    (folder / "pyproject.toml").write_text(STRICT)
    argv = ["-m", "pytest", "-p", "no:randomly", "--testbed=loopback", "--ipver=6", "--ipperf-server=liar"]
    env = {**os.environ, "PYTHONPATH": str(folder / "site")}
    done = run_python(argv, cwd=folder, env=env, copy_of_package=True)
    (journal,) = folder.glob(".ipperf/runs/*/main.jsonl")
    return done.returncode, [json.loads(line) for line in journal.read_text().splitlines()], done.stdout + done.stderr


LONG = [pytest.param(kind, lie, marks=pytest.mark.evidence) for kind in ("postfix", "aiosmtpd")
        for lie in ("drops", "changes", "four") if (kind, lie) != ("postfix", "drops")]  # fmt: skip


@pytest.mark.parametrize(("kind", "lie"), [("postfix", "drops"), *LONG])
def test_a_lying_server_is_never_within(tmp_path, kind, lie):
    if why := SERVERS[kind].missing():
        pytest.skip(f"{kind} cannot run here: {why}")
    status, events, said = session(tmp_path, kind, lie)
    assert status in (1, 10), said
    assert [event["verdict"] for event in events if event["event"] == "record"] in ([], ["exceeds"], ["inconclusive"])
    runs = [event for event in events if event["event"] == "run"]
    lied = [run for run in runs if run["failed"]]
    assert lied
    for run in lied:
        assert list(run["failed"]) == ["content"]
        assert run["rows"] + run["failed"]["content"] == run["attempted"] == 30
        assert any(": expected each message " in note for note in run["notes"])
    assert {6} <= {6 if "ipv6" in run["arm"] else 4 for run in lied} or lie == "changes"
    assert "failed: content" in said or "(content: " in said
