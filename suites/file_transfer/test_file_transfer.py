"""File-transfer baseline (paper 003): files fetched by FTP again and again, and the loss and jitter of datagrams.

The study transferred each size for eight hours, over IPv4 and then over IPv6; `--design=paper` does so again. Otherwise
runs of the design's length alternate. docs/paper-003.md explains the levels.
"""

import pytest

SIZES = [f"{size}m" for size in range(100, 1001, 100)]
RATES = [f"{rate}mbit" for rate in range(10, 51, 10)]


@pytest.mark.file_transfer
@pytest.mark.levels(payload=["1m", "10m"])
@pytest.mark.grid(payload=SIZES)
def test_file_transfer(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.udp
@pytest.mark.metric("jitter")
@pytest.mark.levels(rate=["10mbit", "50mbit"])
@pytest.mark.grid(rate=RATES)
def test_udp_jitter_by_rate(measured, margin):
    assert measured.increase <= margin


@pytest.mark.udp
@pytest.mark.metric("loss")
@pytest.mark.levels(rate=["10mbit", "50mbit"])
@pytest.mark.grid(rate=RATES)
def test_udp_loss_by_rate(measured, margin):
    assert measured.increase <= margin
