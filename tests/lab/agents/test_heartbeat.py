"""Heartbeats to agents on other machines: they go on, pause, and their thread ends with the last agent."""

from __future__ import annotations

import threading
import time

import pytest

from pytest_ipperf.lab.agents.heartbeat import WATCHDOG_TIMEOUT_S, Heartbeat


class Agent:
    """An agent that counts heartbeats."""

    def __init__(self):
        self.words = []
        self.word = threading.Event()

    def send(self, timeout_s):
        self.words.append(timeout_s)
        self.word.set()

    def hears(self, within_s=10.0):
        self.word.clear()
        return self.word.wait(within_s)


def threads():
    return {thread for thread in threading.enumerate() if thread.name.endswith("(_beat)")}


def test_all_get_heartbeats_until_they_are_removed_and_then_no_thread_is_left():
    before = threads()
    heartbeat, one, two = Heartbeat(every_s=0.05), Agent(), Agent()
    heartbeat.add(one.send)
    heartbeat.add(two.send)
    assert one.hears()
    assert two.hears()
    heartbeat.remove(one.send)
    heard = len(one.words)
    assert two.hears()
    assert len(one.words) <= heard + 1
    heartbeat.remove(two.send)
    heartbeat.remove(two.send)
    end = time.monotonic() + 10
    while threads() - before and time.monotonic() < end:
        time.sleep(0.01)
    assert threads() <= before
    heartbeat.add(one.send)
    assert one.hears()
    heartbeat.remove(one.send)


def test_nobody_gets_one_during_a_pause_and_all_do_at_its_end():
    heartbeat, agent = Heartbeat(every_s=0.05), Agent()
    with heartbeat.pause(), heartbeat.pause():
        heartbeat.add(agent.send)
        assert not agent.hears(0.3)
    assert agent.hears()
    heartbeat.remove(agent.send)


@pytest.fixture
def clock(monkeypatch):
    """Make the time settable; no other thread reads it."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Heartbeat, "_beat", lambda _: None)
    return now


def test_only_one_that_is_due_is_allowed(clock):
    heartbeat, agent = Heartbeat(every_s=1000.0), Agent()
    with heartbeat.pause():
        heartbeat.add(agent.send)
        clock[0] += 1000.0
        heartbeat.allow_one()
        assert agent.words == []
        clock[0] += 2000.0
        heartbeat.allow_one()
        heartbeat.allow_one()
        assert agent.words == [WATCHDOG_TIMEOUT_S]
    heartbeat.remove(agent.send)


def test_a_long_pause_is_announced_and_heartbeats_within_it_leave_time_for_the_rest(clock):
    heartbeat, agent = Heartbeat(every_s=1000.0), Agent()
    heartbeat.add(agent.send)
    with heartbeat.pause(999.0):
        assert agent.words == []
    with heartbeat.pause(3600.0):
        assert agent.words == [WATCHDOG_TIMEOUT_S + 3600.0]
        clock[0] += 2000.0
        heartbeat.allow_one()
    assert agent.words == [WATCHDOG_TIMEOUT_S + 3600.0] * 2
    clock[0] += 2000.0
    heartbeat.allow_one()
    assert agent.words[2:] == [WATCHDOG_TIMEOUT_S]
    heartbeat.remove(agent.send)


def test_a_line_that_takes_no_more_keeps_nobody_from_leaving():
    heartbeat, agent, stuck, free = Heartbeat(every_s=0.01), Agent(), threading.Event(), threading.Event()

    def send(_):
        stuck.set()
        free.wait(10)

    heartbeat.add(send)
    assert stuck.wait(10)
    heartbeat.add(agent.send)
    leaving = threading.Thread(target=heartbeat.remove, args=(agent.send,))
    leaving.start()
    leaving.join(10)
    assert not leaving.is_alive()
    assert not free.is_set()
    heartbeat.remove(send)
    free.set()
