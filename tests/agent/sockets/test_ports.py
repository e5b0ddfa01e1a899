"""Free ports of this host."""

from __future__ import annotations

import random
import socket

import pytest

from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import LabError

ADDRESSES = ("127.0.0.1", "::1")


def test_free_port_takes_the_only_one_left():
    low = free_port(ADDRESSES, 20000, 29990, random.Random())
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as udp:
        udp.bind(("::1", low))
        for seed in range(20):
            assert free_port(ADDRESSES, low, low + 5, random.Random(seed)) != low


def test_free_port_takes_none_that_is_promised():
    low = free_port(ADDRESSES, 20000, 29990, random.Random())
    for seed in range(20):
        assert free_port(ADDRESSES, low, low + 5, random.Random(seed), [low]) != low


def test_free_port_order_is_the_seeds():
    found = {free_port(ADDRESSES, 20000, 29999, random.Random(seed)) for seed in range(10)}
    assert len(found) > 5
    assert all(20000 <= port <= 29999 for port in found)


def test_no_free_port_is_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(LabError) as caught:
            free_port(ADDRESSES, port, port, random.Random())
    expected = f"no free port in {port}-{port} on 127.0.0.1 and ::1; free one or widen 'ports' in hosts.ini"
    assert str(caught.value) == expected


def test_what_is_no_address_is_named():
    with pytest.raises(LabError, match=r"^address 'server' is not an IP address such as 198\.18\.0\.2 or 2001:2::2$"):
        free_port(["server"], 20000, 20001, random.Random())
