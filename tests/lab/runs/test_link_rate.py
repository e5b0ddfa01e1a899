"""Trains through the links of real labs, with their rate, or another than they are expected to have."""

from __future__ import annotations

import dataclasses
import os
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.path_proof import rate_shortfalls, rate_violations
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN, with_rate
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.runs.link_rate import exceeds_link_rate, layers, train_rates

ARMS = [Arm(4, "native"), Arm(6, "native"), Arm(6, "tunnel"), Arm(6, "isatap")]
WORKLOAD = Workload(testbed="lab.50mbit", protocol="http", client="lean", connections=10, payload_bytes=20000)


def shaped(name):
    """Set up a lab with a rate; return its parts."""
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    testbed = with_rate(name, BUILTIN)
    assert testbed
    return testbed, live_testbed(testbed, f"test {os.getpid()}", 1.0, lambda _: None, transports=["tunnel", "isatap"])


def thought(testbed, **links):
    return dataclasses.replace(testbed, links=dataclasses.replace(testbed.links, **links))


@pytest.mark.host
def test_every_path_of_a_lab_has_its_rate_in_both_directions():
    testbed, standing_up = shaped("lab.50mbit")
    with standing_up as live:
        service = live.serve(WORKLOAD, "embedded")
        for arm in ARMS:
            if arm.transport in live.tunnels.trouble:
                continue
            facts = live.prove(arm, service, WORKLOAD)
            assert facts["contradictions"] == []
            assert sorted(facts["trains"]) == ["client", "server"]
            assert rate_shortfalls(testbed.links.rate_bit_s, facts["trains"]) == []
            result = live.run(arm, service, WORKLOAD, bursts=3, deadline_s=10.0)
            assert result.violations == ()


@pytest.mark.host
def test_links_of_another_rate_than_they_are_thought_to_have_are_found_out():
    testbed, standing_up = shaped("pair.50mbit")
    with standing_up as live:
        slower, faster = (thought(testbed, rate_bit_s=rate) for rate in (60e6, 5e6))
        missed = rate_shortfalls(60e6, train_rates(slower, ARMS[1], live._agents, 1500))
        exceeded = rate_violations(5e6, train_rates(faster, ARMS[1], live._agents, 1500))
        service = live.serve(WORKLOAD, "embedded")
        result = live.run(ARMS[1], service, WORKLOAD, bursts=10, deadline_s=10.0)
    assert [sentence.partition(" it has ")[0] for sentence in missed] == ["from the client", "from the server"]
    assert len(exceeded) == 2
    for sentence, host in zip(exceeded, ("client", "server"), strict=True):
        assert sentence.startswith(f"expected at most 5 Mbit/s from the {host}, seen ")
    reported, completed = result.proof, result.data.row_count
    assert completed == 100
    assert reported["content_bytes"] == completed * WORKLOAD.payload_bytes
    names = {field.name for field in dataclasses.fields(LoadResult)} & set(reported)
    told = LoadResult(rows=b"", indices=b"", **{name: reported[name] for name in names})
    assert not exceeds_link_rate(testbed, ARMS[1], WORKLOAD, told)
    (sentence,) = exceeds_link_rate(thought(testbed, rate_bit_s=1e6), ARMS[1], WORKLOAD, told)
    assert sentence.startswith("expected at most 928.5 kbit/s of payload, seen ")


def test_nothing_is_sent_where_a_train_could_tell_nothing():
    testbed = with_rate("lab.50mbit", BUILTIN)
    assert testbed
    assert train_rates(BUILTIN["lab"], ARMS[0], {}, 1500) == {}
    assert train_rates(thought(testbed, loss=0.01), ARMS[0], {}, 1500) == {}
    much: Any = SimpleNamespace(content_bytes=10**9)
    assert not exceeds_link_rate(BUILTIN["lab"], ARMS[0], WORKLOAD, much)


def test_layers_are_those_of_the_arm_and_its_protocol():
    looked_up = dataclasses.replace(WORKLOAD, protocol="dns")
    assert [layers(arm, WORKLOAD).max_payload_bytes for arm in ARMS] == [1448, 1428, 1408, 1408]
    assert [layers(arm, looked_up).max_payload_bytes for arm in ARMS] == [1472, 1452, 1432, 1432]
