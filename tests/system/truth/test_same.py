"""The same measured twice: where nothing differs, one in twenty intervals of 95 % may say that something does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import groupby

import pytest

from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.servers import SERVERS
from tests.support.sessions.project_settings import STRICT

SUITE = """
import pytest

@pytest.mark.smtp
def test_smtp(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.http
def test_http(measured, margin):
    assert measured.slowdown <= margin
"""
CONNECTIONS = (1, 2, 5, 10, 20, 50, 100)
PAYLOADS = ("1k", "10k", "64k")
CELLS = 2 * len(CONNECTIONS) * len(PAYLOADS)
# Of 42 intervals of 95 % more exclude 0 with a probability of 0.0005, where there is nothing.
MOST_EXCLUDING = 8

pytestmark = [
    pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}"),
    *(pytest.mark.skipif(bool(why), reason=why) for why in (SERVERS["apache"].missing(), SERVERS["postfix"].missing())),
]


@pytest.mark.evidence
def test_an_arm_measured_twice_differs_from_itself_no_more_often_than_chance_has_it(tmp_path, log):
    (tmp_path / "test_twins.py").write_text(SUITE)
    (tmp_path / "pyproject.toml").write_text(STRICT)
    argv = ["-m", "pytest", "-p", "no:randomly", "--testbed=pair", "--ipperf-twin=yes", "--ipver=4", "--ipperf-seed=1",
            f"--connections={','.join(map(str, CONNECTIONS))}", f"--payload={','.join(PAYLOADS)}"]  # fmt: skip
    done = subprocess.run([sys.executable, *argv], cwd=tmp_path, capture_output=True, text=True, check=False)
    journals = list(tmp_path.glob(".ipperf/runs/*/main.jsonl"))
    assert journals, done.stdout + done.stderr
    events = [json.loads(line) for line in journals[0].read_text().splitlines()]
    records = [each for each in events if each["event"] == "record"]
    assert len(records) == CELLS
    excluding = [each for each in records if each["low"] > 0 or each["high"] < 0]
    for protocol, cells in groupby(records, lambda each: each["protocol"]):
        found = list(cells)
        halves = sorted((each["high"] - each["low"]) / 2 for each in found)
        log(
            f"| {protocol} | {len(found)} | {sum(each in excluding for each in found)} "
            f"| {halves[len(halves) // 2]:.1f} ({halves[0]:.1f} .. {halves[-1]:.1f}) "
            f"| {', '.join(f'{count} {verdict}' for verdict, count in Counter(r['verdict'] for r in found).items())} |"
        )
    for each in excluding:
        log(f"excludes 0: {each['cell']}: {each['estimate']:+.2f} [{each['low']:+.2f}, {each['high']:+.2f}]")
    assert len(excluding) <= MOST_EXCLUDING
