"""Several clients behind ssh, each with a Python of its own: a session as a user reads it, and what it leaves."""

from __future__ import annotations

import json
import re

SUITE = """
    import pytest

    @pytest.mark.http
    @pytest.mark.levels(connections=[7], payload=["1k"])
    def test_http(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.udp
    def test_udp(measured, margin):
        assert measured.slowdown <= margin
"""


def test_two_clients_measure_one_server_and_leave_nothing(farm):
    stands = farm(clients=2)
    session = stands.session("--design=glance", suite=SUITE)
    said, _ = session.communicate(timeout=200)
    alone = "testbed bed1 has 2 clients, and udp runs between two hosts; give it a testbed with one of them"
    assert f"\nleft out: {alone}\n" in said
    lines = [line for line in said.splitlines() if line.startswith("2 clients ")]
    assert len(lines) == 1
    start = re.fullmatch(
        r"2 clients \(client1, client1b\), common start within ([\d.]+) ms \+- 0\.00 ms, in half of .*", lines[0]
    )
    assert start, lines
    (journal,) = stands.folder.glob("session-1/.ipperf/runs/*/main.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    runs = [event for event in events if event["event"] == "run"]
    assert len(runs) == 4
    for run in runs:
        clients = run["proof"]["clients"]
        bursts = run["attempted"] // 7
        expected = [("client1", 4 * bursts), ("client1b", 3 * bursts)]
        assert [(each["host"], each["completed"]) for each in clients.values()] == expected
        assert [each["sources"] for each in clients.values()] == [
            [getattr(stands.hosts[name], run["arm"])] for name in ("client1", "client1b")
        ]
        assert (run["failed"], run["contradictions"], run["proof"]["control"]) == ({}, [], 0)
    (record,) = (event for event in events if event["event"] == "record")
    assert record["client_hosts"] == ["client1", "client1b"]
    assert record["start_skew_error_s"] == 0  # all are on this machine
    worst_s = max(run["facts"]["start_skew_s"] for run in runs if not run["warmup"])
    assert record["start_skew_s"] == worst_s
    (epoch, *_) = (event for event in events if event["event"] == "epoch")
    assert list(epoch["fingerprint"]) == ["client", "server", "client2"]
    assert list(epoch["paths"]["ipv6"]["more_clients"]) == ["client2"]
    assert stands.left() == []
