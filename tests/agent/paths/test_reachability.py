"""Reachability of ports: each responder answers, also where another one was a moment ago."""

from __future__ import annotations

import random
import socket
import time

import pytest

from pytest_ipperf.agent.paths.reachability import Responder, unreachable
from pytest_ipperf.agent.sockets.ports import free_port, in_use


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_door_opens_where_one_was_knocked_at_before(address):
    """TCP keeps the end of that connection in TIME_WAIT for a minute."""
    port = free_port([address], 20000, 29999, random.Random())
    for _ in range(3):
        end = time.monotonic() + 20
        while in_use(address, port, socket.SOCK_DGRAM) and time.monotonic() < end:  # until that responder has gone
            time.sleep(0.01)
        responder = Responder(address, (port, port))
        try:
            assert unreachable(address, address, responder.port) == {"tcp": "", "udp": ""}
        finally:
            responder.close()
