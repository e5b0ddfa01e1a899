"""Ours and iperf3 on one path, through a router whose egress has a rate: they agree with each other and with theory."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from benchmarks.arena import BURST_BYTES, ROUTED, arena
from benchmarks.ends import ends
from pytest_ipperf.core.measurement.goodput_ceiling import FRAME_BYTES, HeaderOverhead
from pytest_ipperf.lab.netns.namespaces import unusable

# The queue holds an eighth of a second of this: a machine that stalls for less leaves the link as busy as it was.
RATE_BIT_S = 10e6
SIZE = 1400
PORT = 26000
# A stall that is longer than what the bucket holds costs the link some of its rate; of several runs one has none.
TRIES = 30


@pytest.fixture(scope="module")
def path():
    """The arena, and our ends in it."""
    if os.geteuid():
        pytest.skip("the arena of the benchmarks needs root")
    if why := unusable():
        pytest.skip(f"no namespaces here: {why}")
    if not shutil.which("iperf3"):
        pytest.skip("iperf3 is not installed (Debian: apt-get install iperf3)")
    with arena() as place, ends(place.near, place.far) as both:
        place.shape(RATE_BIT_S)
        yield place, both


def flown(path, ipver, offered_bit_s):
    """Run ours."""
    _, both = path
    return both.run("udp", ROUTED[ipver], payload_bytes=SIZE, run_s=0.5, warmup_s=0.3, rate=offered_bit_s)


def ours(path, ipver, offered_bit_s):
    """Throughput and loss."""
    run = flown(path, ipver, offered_bit_s)
    return run.value("throughput"), run.value("loss")


def iperf3(path, ipver, offered_bit_s):
    """Throughput of the first second, and loss, as its receiver has them."""
    place, _ = path
    with place.far.running("iperf3", "-s", "-1", "-J", "-p", str(PORT), port=PORT) as server:
        argv = ["iperf3", "-u", "-c", ROUTED[ipver], "-p", str(PORT), "-t", "1", "-l", str(SIZE)]
        place.near.run(*argv, "-b", f"{offered_bit_s:.0f}")
        told = json.loads(server.ended().said)
    return told["intervals"][0]["sum"]["bits_per_second"], told["end"]["sum"]["lost_percent"] / 100


def ceiling_bit_s(ipver):
    """A token bucket counts no preamble, check sequence and gap, which are 24 bytes of a frame's 38."""
    header_bytes = HeaderOverhead(ipver=ipver, datagram=True).header_bytes + FRAME_BYTES - 24
    return RATE_BIT_S * SIZE / (SIZE + header_bytes)


@pytest.mark.parametrize("ipver", [4, 6])
def test_neither_loses_anything_below_the_bottleneck(path, ipver):
    offered_bit_s = RATE_BIT_S / 5
    found = (iperf3(path, ipver, offered_bit_s) for _ in range(TRIES))
    assert any(loss == 0 and each == pytest.approx(offered_bit_s, rel=0.02) for each, loss in found)
    # A sender that a busy machine interrupts leaves datagrams out, and says so; all that it sent arrives.
    for _ in range(TRIES):
        run = flown(path, ipver, offered_bit_s)
        assert run.value("loss") == 0
        sent, missed = run.fact("sent"), run.fact("missed")
        assert sent + missed == pytest.approx(offered_bit_s * 0.5 / 8 / SIZE, abs=1)
        assert sent > 0
        if throughput_is_sent := run.value("throughput") == pytest.approx(run.fact("sent_bit_s"), rel=0.02):
            break  # else the last ones were sent late, and the time until then counts
    assert throughput_is_sent


@pytest.mark.parametrize("ipver", [4, 6])
def test_both_find_the_rate_of_the_bottleneck(path, ipver):
    most_bit_s = ceiling_bit_s(ipver)
    # Ours has a warm-up, and iperf3 finds the bucket full: that much passes at once in its first second.
    more_bit_s = {ours: 0.0, iperf3: 8 * BURST_BYTES * most_bit_s / RATE_BIT_S}
    most = pytest.approx(most_bit_s, rel=0.01)
    # What is sent into a full queue is lost, but for what the bottleneck carries.
    lost = pytest.approx(1 - most_bit_s / (2 * RATE_BIT_S), abs=0.01)
    rates, losses = {}, {}
    for tool, more in more_bit_s.items():
        for _ in range(TRIES):
            reached_bit_s, losses[tool] = tool(path, ipver, 2 * RATE_BIT_S)
            rates[tool] = reached_bit_s - more
            if rates[tool] == most and (tool is iperf3 or losses[tool] == lost):
                break
    assert rates == dict.fromkeys(rates, most)
    assert losses[ours] == lost
