"""The pulse to agents on other machines: it goes on, keeps silence, and its thread ends with the last of them."""

from __future__ import annotations

import threading
import time

import pytest

from pytest_ipperf.lab.agents.heartbeat import LEASH_S, Pulse


class Agent:
    """One that hears."""

    def __init__(self):
        self.words = []
        self.word = threading.Event()

    def speak(self, leash_s):
        self.words.append(leash_s)
        self.word.set()

    def hears(self, within_s=10.0):
        self.word.clear()
        return self.word.wait(within_s)


def threads():
    return {thread for thread in threading.enumerate() if thread.name.endswith("(_beat)")}


def test_all_hear_it_until_they_leave_and_then_no_thread_is_left():
    before = threads()
    pulse, one, two = Pulse(every_s=0.05), Agent(), Agent()
    pulse.join(one.speak)
    pulse.join(two.speak)
    assert one.hears()
    assert two.hears()
    pulse.leave(one.speak)
    heard = len(one.words)
    assert two.hears()
    assert len(one.words) <= heard + 1
    pulse.leave(two.speak)
    pulse.leave(two.speak)
    end = time.monotonic() + 10
    while threads() - before and time.monotonic() < end:
        time.sleep(0.01)
    assert threads() <= before
    pulse.join(one.speak)
    assert one.hears()
    pulse.leave(one.speak)


def test_nobody_hears_anything_while_there_is_silence_and_all_do_at_its_end():
    pulse, agent = Pulse(every_s=0.05), Agent()
    with pulse.silence(), pulse.silence():
        pulse.join(agent.speak)
        assert not agent.hears(0.3)
    assert agent.hears()
    pulse.leave(agent.speak)


@pytest.fixture
def clock(monkeypatch):
    """The time, to be set; no thread looks at it beside us."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Pulse, "_beat", lambda _: None)
    return now


def test_in_a_lull_only_what_is_due_is_said(clock):
    pulse, agent = Pulse(every_s=1000.0), Agent()
    with pulse.silence():
        pulse.join(agent.speak)
        clock[0] += 1000.0
        pulse.lull()
        assert agent.words == []
        clock[0] += 2000.0
        pulse.lull()
        pulse.lull()
        assert agent.words == [LEASH_S]
    pulse.leave(agent.speak)


def test_a_long_silence_is_announced_and_what_is_said_in_its_lulls_leaves_time_for_the_rest(clock):
    pulse, agent = Pulse(every_s=1000.0), Agent()
    pulse.join(agent.speak)
    with pulse.silence(999.0):
        assert agent.words == []
    with pulse.silence(3600.0):
        assert agent.words == [LEASH_S + 3600.0]
        clock[0] += 2000.0
        pulse.lull()
    assert agent.words == [LEASH_S + 3600.0] * 2
    clock[0] += 2000.0
    pulse.lull()
    assert agent.words[2:] == [LEASH_S]
    pulse.leave(agent.speak)


def test_a_line_that_takes_no_more_keeps_nobody_from_leaving():
    pulse, agent, stuck, free = Pulse(every_s=0.01), Agent(), threading.Event(), threading.Event()

    def speak(_):
        stuck.set()
        free.wait(10)

    pulse.join(speak)
    assert stuck.wait(10)
    pulse.join(agent.speak)
    leaving = threading.Thread(target=pulse.leave, args=(agent.speak,))
    leaving.start()
    leaving.join(10)
    assert not leaving.is_alive()
    assert not free.is_set()
    pulse.leave(speak)
    free.set()
