"""A late answer is not a lost one, and a lost one is seen."""

from __future__ import annotations

import pytest

from tests.support.pings import whole

pytestmark = pytest.mark.unit


def output(*numbers, sent):
    lines = [f"64 bytes from 198.18.0.2: icmp_seq={each} ttl=64 time=0.05 ms\n" for each in numbers]
    return f"{''.join(lines)}\n{sent} packets transmitted, {len(numbers)} received, time 201ms\n"


@pytest.mark.parametrize(
    ("numbers", "sent", "found"),
    [
        ((1, 2, 3), 3, True),
        ((1, 2, 3), 4, True),  # the third came after the fourth was sent
        ((1, 2, 3, 4), 4, True),
        ((1, 3, 2), 3, True),
        ((1, 3, 4), 4, False),
        ((2, 3, 4), 4, False),
        ((1, 2), 30, False),
        ((1, 2, 2, 3), 3, False),
        ((), 30, False),
    ],
)
def test_every_request_until_the_last_needed_one_has_its_answer(numbers, sent, found):
    assert whole(output(*numbers, sent=sent), 3) is found


def test_an_error_is_no_answer():
    assert not whole("From 198.18.0.2 icmp_seq=1 Packet too big: mtu=1480\n1 packets transmitted, 0 received\n")
