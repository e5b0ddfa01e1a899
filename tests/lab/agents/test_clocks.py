"""Clocks of hosts against ours: the truth is within the error, however slow connections are; faults are reported."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.paths import clock_sync as agent_clocks
from pytest_ipperf.agent.paths.clock_sync import ClockState, offset_at
from pytest_ipperf.lab.access.base import AccessMethod, quoted
from pytest_ipperf.lab.agents import clocks
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.clocks import HostClock, best_sample, exchange_stamps
from pytest_ipperf.lab.inventory.model import Host
from tests.support.hosts.drifting_clock import Truth

SECOND = 10**9
OFFSETS = st.integers(-(10**15), 10**15)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let each sample have all of its exchanges, however long a busy machine takes for them."""
    monkeypatch.setattr(clocks, "_MOST_S", 60.0)


def exchange(truth, sent_ns, there_ns, answering_ns, back_ns):
    came, answered = sent_ns + there_ns, sent_ns + there_ns + answering_ns
    return sent_ns, truth.reading(came), truth.reading(answered), answered + back_ns


@given(OFFSETS, st.integers(0, 2**32), st.integers(1, 16), st.integers(1, 10**8))
def test_the_truth_is_within_the_error_however_uneven_the_ways_are(offset_ns, seed, count, most_ns):
    truth, drawn = Truth(offset_ns, seed), random.Random(seed)
    ways = ([drawn.randrange(drawn.choice((1, most_ns)) + 1) for _ in range(3)] for _ in range(count))
    at_ns, ahead_s, error_s = best_sample([exchange(truth, drawn.randrange(SECOND), *way) for way in ways])
    assert abs(ahead_s - truth.ahead_ns(at_ns) * 1e-9) <= error_s


@given(OFFSETS, st.integers(0, 2**32), st.integers(1, 4), st.lists(st.integers(0, 4 * SECOND), min_size=1, max_size=20))
def test_between_looks_and_beside_them_it_is_too(offset_ns, seed, looks, instants):
    """The clock drifts in one direction and then in the other, as fast as allowed."""
    truth, drawn = Truth(offset_ns, seed), random.Random(seed)
    marks = []
    for _ in range(looks):
        began, longest = drawn.randrange(4 * SECOND), drawn.choice((10**4, 10**6))
        ways = [[drawn.randrange(most) for most in (longest, 1000, longest)] for _ in range(3)]
        marks.append(best_sample([exchange(truth, began + at * 1000, *way) for at, way in enumerate(ways)]))
    for at_ns in instants:
        ahead_s, error_s = offset_at(marks, at_ns)
        assert abs(ahead_s - truth.ahead_ns(at_ns) * 1e-9) <= error_s


class Line:
    """An agent with made-up clocks: ahead of ours by some seconds, and by more after some exchanges."""

    def __init__(self, *, jumps_s=0.0, after=16, slow_s=0.0, **reported):
        self.host = Host(name="alpha", way="local", settings={"node": "client"})
        self._jumps_ns, self._left, self._told = round(jumps_s * 1e9), after, reported
        self._slow_s = slow_s

    def clock(self):
        moved = {} if self._left > 0 else self._told
        return dataclasses.replace(ClockState({"boot": "another"}, 5.0, 7.0), **moved)

    def stamp(self):
        self._left -= 1
        time.sleep(self._slow_s)
        here = time.monotonic_ns() + 42 * SECOND + (self._jumps_ns if self._left < 0 else 0)
        return here, here


@pytest.mark.parametrize(("slow_s", "expected"), [(0.0, 9), (0.3, 3)])
def test_by_a_slow_line_there_are_a_few_exchanges_only(slow_s, expected, monkeypatch):
    if slow_s:
        monkeypatch.setattr(clocks, "_MOST_S", 0.25)
    exchanges = exchange_stamps(Line(slow_s=slow_s), 9)  # type: ignore[arg-type]
    assert len(exchanges) == expected
    assert all(sent + slow_s * SECOND <= came - 42 * SECOND <= back for sent, came, _, back in exchanges)


def watched(**reported: Any) -> HostClock:
    clock = HostClock(Line(**reported))  # type: ignore[arg-type]
    clock.sample()
    return clock


def test_of_clocks_with_which_all_is_well_nothing_is_told():
    clock = watched()
    assert list(clock.troubles()) == []
    here_ns, error_s = clock.to_local(clock.to_remote(SECOND))
    assert abs(here_ns - SECOND) <= 1
    assert clock.to_remote(SECOND) == pytest.approx(43 * SECOND, abs=1e9 * error_s)


@pytest.mark.parametrize(
    ("reported", "sentence"),
    [
        ({"real_s": 6.5}, "the clock of host alpha was set by 1.500 s during a run"),
        ({"slept_s": 10.0}, "the clock of host alpha stood still for 3.000 s, as in sleep, during a run"),
    ],
)
def test_a_clock_that_was_set_and_a_host_that_slept_are_told(reported, sentence):
    assert list(watched(**reported).troubles()) == [sentence]


def test_our_own_clock_is_watched_too(monkeypatch):
    clock = watched()
    here = agent_clocks.sample_clocks()
    monkeypatch.setattr(clocks, "sample_clocks", lambda: dataclasses.replace(here, real_s=here.real_s - 2))
    assert list(clock.troubles()) == ["the clock of this machine was set by -2.000 s during a run"]


def test_a_clock_that_jumped_is_told_and_its_instants_are_as_unsure():
    clock = watched(jumps_s=0.5)
    (sentence,) = clock.troubles()
    assert sentence == "the clock of host alpha moved by 0.500 s against this machine's during a run"
    _, error_s = clock.to_local(clock.to_remote(clock.samples[0][0]))
    assert error_s > 0.4


class Elsewhere(AccessMethod):
    """A process of this machine with another CLOCK_MONOTONIC: ahead by the setting `ahead_s`."""

    def spec(self, settings, entry):
        del entry
        words = [
            "unshare",
            "--time",
            "--monotonic",
            settings["ahead_s"],
            "--fork",
            "--kill-child",
            sys.executable,
            "-I",
        ]
        return {"popen": True, "python": quoted(words)}

    def command(self, settings, entry):
        del settings, entry
        return ["true"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a time namespace needs root")
@pytest.mark.parametrize("ahead_s", [86400, -1])
def test_the_clock_of_another_time_namespace_is_found(ahead_s, monkeypatch):
    """The kernel's offset of the namespace is known to the second."""
    monkeypatch.setattr("pytest_ipperf.lab.agents.client.ACCESS_METHODS", {"elsewhere": Elsewhere()})
    with contextlib.ExitStack() as stack:
        agent = stack.enter_context(
            AgentClient(Host(name="alpha", way="elsewhere", settings={"ahead_s": str(ahead_s)}))
        )
        clock = HostClock(agent)
        assert not clock.is_local
        clock.sample()
        for at_ns in (clock.samples[0][0], time.monotonic_ns()):
            found_s, error_s = offset_at(clock.samples, at_ns)
            assert abs(found_s - ahead_s) <= error_s < 0.5  # which is less than the offsets are apart
        here_ns = time.monotonic_ns()
        assert abs(clock.to_remote(here_ns) - here_ns - ahead_s * SECOND) <= 1e9 * error_s
        assert list(clock.troubles()) == []


def test_the_clock_of_this_machine_is_ours():
    with AgentClient(Host(name="alpha", way="local", settings={"node": "client"})) as agent:
        clock = HostClock(agent)
        assert clock.is_local
        assert 0 < clock.round_trip_s < 60
        now_ns = time.monotonic_ns()
        assert (clock.to_remote(now_ns), clock.to_local(now_ns)) == (now_ns, (now_ns, 0.0))
