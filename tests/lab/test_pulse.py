"""The pulse to agents on other machines: it goes on, keeps silence, and its thread ends with the last of them."""

from __future__ import annotations

import threading
import time

from pytest_ipperf.lab.pulse import Pulse


class Agent:
    """One that hears."""

    def __init__(self):
        self.heard = 0
        self.word = threading.Event()

    def speak(self):
        self.heard += 1
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
    heard = one.heard
    assert two.hears()
    assert one.heard == heard
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


def test_in_a_lull_only_what_is_due_is_said():
    pulse, agent = Pulse(every_s=0.2), Agent()
    with pulse.silence():
        pulse.join(agent.speak)
        pulse.lull()
        assert agent.heard == 0
        time.sleep(0.3)
        pulse.lull()
        pulse.lull()
        assert agent.heard == 1
    pulse.leave(agent.speak)
