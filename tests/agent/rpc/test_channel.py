"""Channel to the controller: when the agent sends, when it is silent, and when it ends by itself."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from pytest_ipperf.agent.load.silence import FAR_PROGRESS_S, PROGRESS, PROGRESS_S, QuietReporter
from pytest_ipperf.agent.rpc import channel as channel_module
from pytest_ipperf.agent.rpc.channel import Channel
from pytest_ipperf.agent.sockets.control_connection import ControlConnection


class Control(ControlConnection):
    """A control connection with a scripted number of segments at each reading."""

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
    """Yield a clock that can be set."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def said():
    return []


def test_at_a_pipe_a_sign_comes_after_a_second_in_the_midst_of_a_run_too(clock, said):
    reporter = Channel(said.append).progress_reporter()
    reporter.measurement_started()
    reporter.report_progress()
    assert said == []
    clock[0] += PROGRESS_S
    reporter.report_progress()
    reporter.measurement_ended()
    assert said == [PROGRESS]
    assert reporter.control is None


def test_over_a_network_a_sign_comes_between_measured_seconds_only_and_has_time_to_pass(clock, said):
    control = Control(10, 10, 10, 14, 14)
    reporter = QuietReporter(said.append, control)
    assert control.settled == 1
    reporter.measurement_started()
    clock[0] += 2 * FAR_PROGRESS_S
    reporter.report_progress()
    assert said == []
    reporter.measurement_ended()
    assert (said, control.settled, reporter.control) == ([PROGRESS], 2, 0)
    reporter.measurement_started()  # after the keep-alive's own four segments
    reporter.measurement_ended()
    assert (said, control.settled, reporter.control) == ([PROGRESS], 2, 0)


def test_what_passes_in_measured_seconds_is_counted(clock, said):
    reporter = QuietReporter(said.append, Control(10, 10, 13, 20, 21))
    for _ in range(2):
        reporter.measurement_started()
        reporter.measurement_ended()
    assert reporter.control == 3 + 1
    assert clock == [100.0]


@pytest.mark.parametrize("looks", [(None, None, None), (5, None, None), (5, 5, None)])
def test_where_nothing_can_be_counted_nothing_is_told(said, looks):
    reporter = QuietReporter(said.append, Control(*looks))
    reporter.measurement_started()
    reporter.measurement_ended()
    assert reporter.control is None


@pytest.fixture
def told_to_end():
    """Yield an event that is set when this process receives SIGTERM."""
    told = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: told.set())
    yield told
    signal.signal(signal.SIGTERM, before)


def test_who_hears_nothing_for_the_watchdog_timeout_ends(said, told_to_end):
    channel = Channel(said.append)
    channel.arm_watchdog(0.05)
    assert told_to_end.wait(10)


@pytest.mark.parametrize("calls", [False, True])
def test_who_hears_a_word_or_has_a_call_goes_on(said, told_to_end, monkeypatch, calls):
    """The clock advances a second at each reading, up to the eleventh."""
    channel = Channel(said.append)
    channel.received(5.0)
    now, looks = [time.monotonic()], []

    def sleep(seconds):
        assert seconds == 5.0 / 20
        assert not told_to_end.is_set()
        looks.append(seconds)
        now[0] += 1
        if calls:
            channel._busy = len(looks) <= 10
        elif len(looks) == 4:
            channel.received(7.0)
            monkeypatch.setattr(channel_module, "_CHECKS", 20 * 7.0 / 5.0)

    with monkeypatch.context() as patched:
        patched.setattr(time, "sleep", sleep)
        patched.setattr(time, "monotonic", lambda: now[0])
        channel._received_at = now[0]
        channel._busy = calls
        channel._watchdog()
    assert told_to_end.is_set()
    assert len(looks) == 11
