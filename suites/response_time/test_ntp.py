"""Response times of a time server (NTP), timed as the applications of paper 000, which does not have it."""

import pytest


@pytest.mark.ntp
@pytest.mark.levels(connections=[1, 10, 100], payload=["48"])
@pytest.mark.grid(connections=[1, 10, 100, 1000])
@pytest.mark.margin("10%", at_least="0.1ms")
def test_ntp_response_time(measured, margin):
    assert measured.slowdown <= margin
