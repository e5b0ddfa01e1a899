"""A run asks each host once before its load, once for it, and once after it, whatever it measures and proves."""

from __future__ import annotations

import dataclasses
import os
from collections import defaultdict

import pytest

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.runs.flows import Duration
from pytest_ipperf.protocols import PROTOCOLS

FOUR, TUNNEL = Arm(4, "native"), Arm(6, "tunnel")
BEFORE, AFTER = "start_run", "finish_run"


def work(protocol, connections=1):
    levels = tuple(each.level(each.levels[0]) for each in getattr(PROTOCOLS[protocol], "factors", ()))
    return Workload(
        testbed="lab", protocol=protocol, client="lean", connections=connections, payload_bytes=500, levels=levels
    )


@pytest.fixture
def asked(monkeypatch):
    """Record the requests sent to each host, in order."""
    found = defaultdict(list)
    request = AgentClient.request

    def noted(self, name, *arguments, **settings):
        found[self.host.name].append(name)
        request(self, name, *arguments, **settings)

    monkeypatch.setattr(AgentClient, "request", noted)
    return found


@pytest.fixture
def up(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    job = f"test {os.getpid()}"
    with live_testbed(BUILTIN["lab"], job, 1.0, lambda _: None, transports=["tunnel"]) as live:
        yield live


@pytest.mark.parametrize(
    ("protocol", "load", "capture"),
    [("http", "load", 0), ("smtp", "load", 0), ("udp", "flow_run", 0), ("http", "load", 3)],
)
def test_each_host_is_asked_once_before_and_once_after_a_run(up, asked, protocol, load, capture):
    job = work(protocol, 1 if load == "flow_run" else 5)
    service = up.serve(job, "embedded")
    arms = [FOUR] if capture else [FOUR, TUNNEL]
    up.run(FOUR, service, job, bursts=1, deadline_s=5.0, duration=Duration(warmup_s=0.0, run_s=0.1), capture=capture)
    for arm in arms:
        asked.clear()
        duration = Duration(warmup_s=0.05, run_s=0.2)
        result = up.run(arm, service, job, bursts=3, deadline_s=5.0, duration=duration, capture=capture)
        assert (result.data.failed, result.violations) == ({}, ())
        assert asked == {
            "client": [*([BEFORE] if capture or load != "load" else []), load, *([AFTER] if load == "load" else [])],
            "server": [BEFORE, AFTER],
            "router": [BEFORE, AFTER],
        }
        assert sorted(result.captures) == (["client", "router", "server"] if capture else [])


def test_a_run_whose_server_answers_nobody_asks_no_host_more_often(up, asked):
    job = work("http", 5)
    service = dataclasses.replace(up.serve(job, "embedded"), port=9)
    asked.clear()
    result = up.run(FOUR, service, job, bursts=5, deadline_s=5.0)
    assert result.data.failed == {"connect refused": 15}
    assert asked == {"client": [BEFORE, "load", AFTER], "server": [BEFORE, AFTER], "router": [BEFORE, AFTER]}
