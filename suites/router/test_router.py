"""IPv4, IPv6 and ISATAP routers (paper 001): throughput, round-trip time, jitter and loss through a router.

The study names no levels of its figures except the rates; the others are explained in docs/paper-001.md.
"""

import pytest

RATES = [f"{rate}mbit" for rate in range(10, 101, 10)]
WINDOWS = ["8k", "16k", "32k", "64k", "128k", "256k", "512k"]
SIZES = ["32", "128", "512", "1408", "4k", "16k", "65496"]


@pytest.mark.tcp
@pytest.mark.levels(window=["16k", "64k", "256k"])
@pytest.mark.grid(window=WINDOWS)
def test_tcp_throughput_by_window(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.tcp
@pytest.mark.levels(connections=[1, 4, 8])
@pytest.mark.grid(connections=[1, 2, 4, 6, 8, 10])
def test_tcp_throughput_by_streams(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.rtt
@pytest.mark.levels(payload=["64", "1408", "8k"])
@pytest.mark.grid(payload=SIZES)
def test_rtt_by_size(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.udp
@pytest.mark.levels(rate=["20mbit", "60mbit", "100mbit"])
@pytest.mark.grid(rate=RATES)
def test_udp_throughput(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.udp
@pytest.mark.metric("jitter")
@pytest.mark.levels(rate=["20mbit", "60mbit", "100mbit"])
@pytest.mark.grid(rate=RATES)
def test_udp_jitter(measured, margin):
    assert measured.increase <= margin


@pytest.mark.udp
@pytest.mark.metric("loss")
@pytest.mark.levels(rate=["20mbit", "60mbit", "100mbit"])
@pytest.mark.grid(rate=RATES)
def test_udp_loss(measured, margin):
    assert measured.increase <= margin
