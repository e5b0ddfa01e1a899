"""Payloads of 32 to 65496 bytes over TCP and UDP (paper 004): throughput, jitter and the overhead of headers.

Payload `kharche` stands for all sizes of the study; docs/paper-004.md explains them and the figures.
"""

import pytest

SIZES = ["32", "1408", "8k"]


@pytest.mark.tcp
@pytest.mark.levels(payload=SIZES)
@pytest.mark.grid(payload=["kharche"])
def test_tcp_throughput_by_payload(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.udp
@pytest.mark.levels(payload=SIZES, rate=["flood"])
@pytest.mark.grid(payload=["kharche"])
def test_udp_throughput_by_payload(measured, margin):
    assert measured.slowdown <= margin
