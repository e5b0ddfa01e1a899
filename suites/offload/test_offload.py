"""Offloading on and off (paper 002): a TCP stream over IPv4 and IPv6, with the offloads of all hosts on and off.

Within a block the four arms follow each other in random order. docs/paper-002.md explains the levels.
"""

import pytest


@pytest.mark.tcp
@pytest.mark.compare("offload", transport=["native"])
@pytest.mark.levels(offload=["off", "on"])
def test_tcp_stream(measured, margin):
    assert measured.slowdown <= margin
