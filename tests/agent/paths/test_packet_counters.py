"""Wait until no packet in a tunnel was seen for a while, by counters that are read and by a clock that is made up."""

from __future__ import annotations

import pytest

from pytest_ipperf.agent.paths import packet_counters, routes
from pytest_ipperf.agent.paths.packet_counters import RunCounters, RunPackets


class Clock:
    """A clock on which only waiting takes time."""

    def __init__(self):
        self.now, self.waits = 100.0, 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.waits += 1


class Packets:
    """A counter that sees a packet every `every_s` seconds, until an instant."""

    clock = Clock()
    every_s, until = 0.0, 0.0

    def __init__(self, *_):
        self._read = self.clock.now

    def count(self):
        before, self._read = self._read, self.clock.now
        end = min(self._read, self.until)
        seen = int(end / self.every_s) - int(before / self.every_s) if self.every_s and end > before else 0
        return {"in": max(seen, 0), "out": 0}

    def close(self):
        pass


@pytest.fixture
def counters(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(Packets, "clock", clock)
    monkeypatch.setattr(packet_counters, "time", clock)
    monkeypatch.setattr(routes, "Protocol41", Packets)
    monkeypatch.setattr(routes, "ip_packets", lambda: {"ipv4": 0, "ipv6": 0})
    monkeypatch.setattr(packet_counters, "tcp_error_counters", dict)

    def made(every_s=0.0, for_s=0.0):
        monkeypatch.setattr(Packets, "every_s", every_s)
        monkeypatch.setattr(Packets, "until", clock.now + for_s)
        return RunCounters(), clock

    return made


def test_where_the_last_packet_was_long_ago_nothing_is_waited_for(counters):
    found, clock = counters()
    clock.now += 1.0
    assert found.wait_drained(0.04, 15.0)
    assert clock.waits == 0


def test_without_a_pause_the_counters_are_reset_and_no_more(counters):
    found, clock = counters(every_s=0.001, for_s=60.0)
    clock.now += 1.0
    assert found.wait_drained(0.0, 15.0)
    assert clock.waits == 0
    assert found.read() == RunPackets(protocol41={"in": 0, "out": 0})


def test_what_passes_is_waited_for_and_not_counted(counters):
    found, clock = counters(every_s=0.01, for_s=0.5)
    clock.now += 0.1
    assert found.wait_drained(0.04, 15.0)
    assert 100.5 + 0.03 < clock.now < 100.5 + 0.1
    assert found.read().tunnelled == 0


def test_what_does_not_end_is_given_up(counters):
    found, clock = counters(every_s=0.01, for_s=1000.0)
    assert not found.wait_drained(0.04, 15.0)
    assert 114.9 < clock.now <= 115.0
