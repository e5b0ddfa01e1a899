"""The rate of an arm's path, and the violations of an arm that is too fast."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.client_load import ClientFacts
from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s
from pytest_ipperf.core.measurement.link_rate import LinkRate, link_rate
from pytest_ipperf.core.measurement.path_proof import goodput_violations, rate_shortfalls, rate_violations
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.token_bucket import bucket_bytes

TUNNEL = HeaderOverhead(ipver=6, overhead_bytes=20)


def run(wall_s, completed=10, *, warmup=False, content_bytes=1000):
    """Make a run whose connections have moved this many bytes each; None if that is unknown."""
    client = ClientFacts(
        cpu_s=0.1, wall_s=wall_s, connections=10, lag_s=0.0, peak=10, tcp={},
        content_bytes=None if content_bytes is None else content_bytes * completed,
    )  # fmt: skip
    return Run(
        arm=Arm(6, "tunnel"), epoch=0, block=0, slot=0, warmup=warmup, started_at=0.0, attempted=10,
        failed={"talk reset": 10 - completed}, values={"response_time": 0.01}, client=client,
    )  # fmt: skip


@pytest.mark.parametrize(("content_bytes", "goodput_bit_s"), [(1000, 80_000.0), (13, 1040.0), (0, None), (None, None)])
def test_goodput_is_made_of_the_bytes_that_came_and_unknown_where_nobody_counted(content_bytes, goodput_bit_s):
    found = link_rate(1e8, TUNNEL, [run(0.5, content_bytes=content_bytes), run(0.5, 0)], [], 10)
    assert found is not None
    assert found.goodput_bit_s == goodput_bit_s


def test_goodput_is_what_completed_in_the_time_of_the_bursts():
    runs = [run(0.5), run(1.5, 5), run(9.0, warmup=True)]
    found = link_rate(1e8, TUNNEL, runs, [{"client": 1e8, "server": 9.99e7}, {"client": 1.001e8, "server": 9.98e7}], 10)
    # Two bursts of ten connections in two seconds found the bucket of 2788 bytes full.
    most = ceiling_bit_s(1e8 + 2 * 8 * 2788 / 2.0, TUNNEL)
    assert found == LinkRate(rate_bit_s=1e8, ceiling_bit_s=most, goodput_bit_s=60000.0, path_bit_s=9.98e7)
    assert not found.too_slow


def test_links_without_a_rate_have_no_pace():
    assert link_rate(0.0, TUNNEL, [run(0.5)], [], 10) is None


def test_where_connections_arrive_at_a_rate_their_time_is_none_of_the_links():
    found = link_rate(1e8, TUNNEL, [run(None)], [{}], 10)
    assert found is not None
    assert (found.goodput_bit_s, found.path_bit_s, found.too_slow) == (None, None, False)


@pytest.mark.parametrize(("seen", "misses"), [(0.991e8, False), (0.989e8, True), (None, True), (1.2e8, False)])
def test_a_path_misses_its_rate_where_one_direction_does_by_more_than_a_hundredth(seen, misses):
    found = link_rate(1e8, TUNNEL, [run(0.5)], [{"client": 1e8, "server": 1e8}, {"client": 1e8, "server": seen}], 10)
    assert found is not None
    assert found.too_slow is misses


def test_trains_that_are_too_fast_are_contradictions_and_those_too_slow_are_not():
    trains = {"client": 1.02e8, "server": 0.971e8}
    assert rate_violations(1e8, trains) == ["expected at most 100 Mbit/s from the client, seen 102 Mbit/s"]
    assert rate_shortfalls(1e8, trains) == ["from the server it has 97.1 Mbit/s"]
    assert rate_shortfalls(1e8, {"client": None}) == ["from the client nothing came through"]
    for fine in ({}, {"client": 1.0099e8, "server": 0.9901e8}):
        assert rate_violations(1e8, fine) == rate_shortfalls(1e8, fine) == []


def test_more_payload_than_the_links_let_through_is_a_contradiction():
    def spoken(moved_bytes, bucket_bytes):
        return goodput_violations(1e8, TUNNEL, moved_bytes=moved_bytes, time_s=1.0, bucket_bytes=bucket_bytes)

    assert spoken(11_500_000, 0) == []
    assert spoken(11_600_000, 0) == ["expected at most 91.55 Mbit/s of payload, seen 92.8 Mbit/s"]
    assert spoken(11_600_000, 163840) == []


@given(st.floats(1e6, 1e9), st.integers(1, 5000), st.integers(1, 30))
def test_bursts_that_the_bucket_lets_pass_at_once_contradict_nothing(rate, packets, bursts):
    """Each burst finds the bucket full, so its first packets pass at once."""
    wire, bucket = packets * 1538, bucket_bytes(rate)
    time_s = bursts * max(1e-6, (wire - bucket) * 8 / rate)
    moved = bursts * packets * TUNNEL.max_payload_bytes
    assert not goodput_violations(rate, TUNNEL, moved_bytes=moved, time_s=time_s, bucket_bytes=bucket * bursts)
