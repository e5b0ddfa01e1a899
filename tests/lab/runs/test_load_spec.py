"""The reports of clients about their own part in a run."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.lab.runs.load_spec import client_facts, disturbances
from pytest_ipperf.lab.runs.result import ClientResults

AFTER = {"ListenDrops": 3}


def reported(cpu_s, wall_s, attempted):
    return LoadResult(
        rows=b"", indices=b"", attempted=attempted, failed={}, families=[], peers={}, sources=[], dns_retries=0,
        burst_cpu_s=cpu_s, wall_s=wall_s, content_bytes=1000 * attempted, lag_s=0.1, peak=5, cpu_s=cpu_s, processors=1,
        tcp={}, host_cpu_s={},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rate_per_s", "cpu_s", "wall_s", "connections"), [(0.0, 0.4, 0.5, 20), (100.0, 0.3, None, 10)]
)
def test_of_several_clients_the_busiest_tells_how_busy_they_were(rate_per_s, cpu_s, wall_s, connections):
    work = Workload(
        testbed="crowd", protocol="http", client="lean", connections=30, payload_bytes=1000, rate_per_s=rate_per_s
    )
    clients = {"client": reported(0.4, 0.5, 20), "client2": reported(0.3, 1.0, 10)}
    total = dataclasses.replace(reported(0.7, 1.0, 30), processors=2, lag_s=0.2, peak=9, tcp={"TCPTimeouts": 1})
    found = client_facts(ClientResults(total=total, by_role=clients), AFTER, work)
    assert (found.cpu_s, found.wall_s, found.connections, found.processors) == (cpu_s, wall_s, connections, 1)
    assert (found.lag_s, found.peak, found.tcp) == (0.2, 9, {"TCPTimeouts": 1, "ListenDrops": 3})
    assert found.content_bytes == 30_000  # of all clients
    one = reported(0.7, 1.0, 30)
    alone = client_facts(ClientResults(total=one, by_role={"client": one}), AFTER, work)
    assert (alone.cpu_s, alone.connections) == (0.7, 30)


def test_a_control_connection_that_was_not_silent_is_told_by_its_host():
    hosts = {"client": "alpha", "client2": "gamma", "server": "beta"}
    clients = {"client": 0, "client2": 3, "client3": None}
    said = ["the control connection of host gamma was not silent while its figures were taken"]
    assert disturbances(clients, hosts) == said
    assert disturbances({"client": None}, hosts) == []
