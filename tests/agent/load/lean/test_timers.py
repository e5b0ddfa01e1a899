"""Timers: a query is repeated if it, or its answer, may have been lost, and only then."""

from __future__ import annotations

import contextlib
import select
import socket

import pytest

from pytest_ipperf.agent.load.lean.connection import RESOLVING, Connection
from pytest_ipperf.agent.load.lean.timers import BurstTimers
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from tests.support.servers.udp import silent_socket


class Clocked:
    """A burst with a clock that is set by hand, as its timers see it; its socket sends no answers."""

    def __init__(self, asked):
        self._asked = asked
        self.began = self.now = 0.0
        self.dns_retries = 0
        self.connections = [Connection(application("http").conversation(ServerState(), 0, 4), b"where is it?")]

    def clock(self):
        return self.now

    def begin(self, connection):
        connection.state = RESOLVING
        connection.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        connection.sock.connect(self._asked.getsockname())
        connection.sock.send(connection.query)

    def at(self, now, timers):
        self.now = now
        return timers.run_due()


@pytest.fixture
def asked():
    with silent_socket() as sock:
        yield sock


@pytest.fixture
def burst(asked):
    made = Clocked(asked)
    yield made
    with contextlib.suppress(AttributeError):
        made.connections[0].sock.close()


def test_the_patience_counts_from_the_question_and_not_from_the_instant(burst):
    """A client that opens late has not lost a datagram."""
    timers = BurstTimers(burst, [0.5], 10.0)
    assert timers.begin(0.0) == 0.5
    assert burst.at(3.0, timers) == 4.0
    assert burst.connections[0].start_delay_s == 2.5
    assert burst.at(3.9, timers) == 4.0
    assert burst.dns_retries == 0
    assert burst.at(4.0, timers) == 6.0
    assert burst.dns_retries == 1


@pytest.mark.parametrize("starts", [[], [0.0]])
def test_an_answer_that_waits_to_be_read_was_not_lost(burst, asked, starts):
    timers = BurstTimers(burst, starts, 10.0)
    assert timers.begin(0.0) == 1.0
    asked.sendto(b"there", asked.recvfrom(100)[1])
    assert select.select([burst.connections[0].sock], (), (), 20)[0]
    assert burst.at(1.5, timers) == 1.5  # so that the loop runs again at once
    assert burst.dns_retries == 0
    burst.connections[0].sock.recv(100)  # it was no answer, as it turns out
    assert burst.at(1.6, timers) == 3.0
    assert burst.dns_retries == 1
