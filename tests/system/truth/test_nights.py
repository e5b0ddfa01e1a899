"""Three nights on the lab: a calm one, one with an IPv6 made slower at ten connections, and one that has accepted that.

The gate is the real thing, from the command down to the packets; only the server is one that can be told to be slow.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import pytest_ipperf
from pytest_ipperf.lab.netns.namespaces import unusable
from tests.support.sessions.forked_python import run_python

SLOWER_SERVER = Path(__file__).parent / "slower.py"
SUITE = """
import pytest

@pytest.mark.http
@pytest.mark.levels(connections=[1, 10], payload=["1k"])
@pytest.mark.margin("25%")
def test_http(measured, margin):
    assert measured.slowdown <= margin
"""
SHORTER = """
import dataclasses
from pytest_ipperf.core.design.design import DESIGNS
for name in ("nightly", "confirmation"):
    DESIGNS[name] = dataclasses.replace(DESIGNS[name], epochs=6, blocks=1, run_connections=30)
"""
CALM = {1: (0.01, 0.0), 10: (0.02, 0.0)}
SLOW = {1: (0.01, 0.0), 10: (0.02, 0.02)}
"""By connections at once seconds for IPv4, and those more for IPv6: so many that a busy machine cannot hide them."""
ONE, TEN = (f"pair-http-c{count}-1k-ipv6" for count in (1, 10))

pytestmark = pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")


class Nights:
    """A folder with a suite, whose server can be told to be slower; `run` gives a night's status and verdict."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._package = folder / "site" / "pytest_ipperf"
        source = Path(pytest_ipperf.__file__).parent
        shutil.copytree(source, self._package, ignore=shutil.ignore_patterns("*.pyc.*"))
        for name, text in (("test_nights.py", SUITE), ("conftest.py", SHORTER), ("pytest.ini", "[pytest]\n")):
            (folder / name).write_text(text)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; from pytest_ipperf.cli import main; sys.exit(main())"
        env = {**os.environ, "PYTHONPATH": str(self._folder / "site")}
        return run_python(["-c", program, *arguments], cwd=self._folder, env=env, copy_of_package=True)

    def run(self, schedule: dict[int, tuple[float, float]]) -> tuple[int, dict, str]:
        log_file = self._folder / "log.jsonl"
        text = SLOWER_SERVER.read_text().replace("@log@", str(log_file)).replace("@schedule@", json.dumps(schedule))
        (self._package / "servers" / "late.py").write_text(text)
        asked = ("--testbed=pair", "--transport=native", "--ipperf-server=late", "-p", "no:randomly")
        done = self.command("night", *asked)
        verdicts = sorted(self._folder.glob(".ipperf/nights/*/verdict.json"))
        assert verdicts, done.stdout + done.stderr
        return done.returncode, json.loads(verdicts[-1].read_text()), done.stdout + done.stderr


def decisions(verdict: dict) -> dict[str, str]:
    return {cell["cell"]: cell["ruling"] for cell in verdict["cells"]}


@pytest.mark.evidence
def test_a_slowed_server_turns_the_night_red_until_it_is_accepted(tmp_path):
    nights = Nights(tmp_path)
    status, verdict, said = nights.run(CALM)
    assert (status, decisions(verdict)) == (0, {ONE: "within", TEN: "within"}), said
    status, verdict, said = nights.run(SLOW)
    assert (status, decisions(verdict)) == (1, {ONE: "within", TEN: "exceeds"}), said
    (red,) = [cell for cell in verdict["cells"] if cell["ruling"] == "exceeds"]
    assert red["flagged"]
    assert red["p_adjusted"] < 0.04
    done = nights.command("accept", TEN, "--reason", "a slower server, on purpose", "--for", "7d")
    assert done.returncode == 0, done.stderr
    status, verdict, said = nights.run(SLOW)
    assert (status, decisions(verdict)) == (0, {ONE: "within", TEN: "accepted"}), said
    assert "a slower server, on purpose" in said
