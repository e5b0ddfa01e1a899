"""The line to the controller: when the agent speaks on it, when it is silent, and when it ends by itself."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from pytest_ipperf.agent.control import ControlLine
from pytest_ipperf.agent.line import ALIVE, FAR_SIGN_S, SIGN_S, FarWatch, Line


class Control(ControlLine):
    """A control connection on which so many segments are seen at each look."""

    def __init__(self, *looks):
        super().__init__(None)
        self.looks = list(looks)
        self.settled = 0

    def packets(self):
        return self.looks.pop(0)

    def settle(self, sleep=time.sleep):
        self.settled += 1


@pytest.fixture
def clock(monkeypatch):
    """The time, to be set."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def said():
    return []


def test_at_a_pipe_a_sign_comes_after_a_second_in_the_midst_of_a_run_too(clock, said):
    watch = Line(said.append).watch()
    watch.began()
    watch.alive()
    assert said == []
    clock[0] += SIGN_S
    watch.alive()
    watch.ended()
    assert said == [ALIVE]
    assert watch.control is None


def test_over_a_network_a_sign_comes_between_measured_seconds_only_and_has_time_to_pass(clock, said):
    control = Control(10, 10, 10, 14, 14)
    watch = FarWatch(said.append, control)
    assert control.settled == 1
    watch.began()
    clock[0] += 2 * FAR_SIGN_S
    watch.alive()
    assert said == []
    watch.ended()
    assert (said, control.settled, watch.control) == ([ALIVE], 2, 0)
    watch.began()  # after the sign's own four segments
    watch.ended()
    assert (said, control.settled, watch.control) == ([ALIVE], 2, 0)


def test_what_passes_in_measured_seconds_is_counted(clock, said):
    watch = FarWatch(said.append, Control(10, 10, 13, 20, 21))
    for _ in range(2):
        watch.began()
        watch.ended()
    assert watch.control == 3 + 1
    assert clock == [100.0]


@pytest.mark.parametrize("looks", [(None, None, None), (5, None, None), (5, 5, None)])
def test_where_nothing_can_be_counted_nothing_is_told(said, looks):
    watch = FarWatch(said.append, Control(*looks))
    watch.began()
    watch.ended()
    assert watch.control is None


def ended(line, leash_s, meanwhile, most_s):
    """Whether the process is told to end within that time, while something is done every now and then."""
    told = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: told.set())
    try:
        line.is_far(leash_s)
        end = time.monotonic() + most_s
        while not told.is_set() and time.monotonic() < end:
            meanwhile()
            time.sleep(0.01)
        return told.is_set()
    finally:
        if not told.is_set():
            line._busy = True  # or its thread would end this process later
        signal.signal(signal.SIGTERM, before)


def test_who_hears_nothing_for_the_length_of_the_leash_ends(said):
    assert ended(Line(said.append), 0.2, lambda: None, 10)


def test_who_hears_a_word_or_has_an_order_goes_on(said):
    line = Line(said.append)
    assert not ended(line, 0.4, line.heard, 1)
    other = Line(said.append)
    with other.busy():
        assert not ended(other, 0.2, lambda: None, 0.6)
    other._busy = True
