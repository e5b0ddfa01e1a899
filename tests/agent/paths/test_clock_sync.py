"""Map of another clock to the local one, between samples and outside them: true within the returned error."""

from __future__ import annotations

import math
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.paths.clock_sync import DRIFT, WANDER, ClockMap, excess_drift_s, offset_at, sample_clocks
from tests.support.hosts.drifting_clock import Truth

SECOND = 10**9


def test_a_steady_drift_is_drawn_as_a_line():
    samples = [(at * SECOND, 5.0 + at * 2e-5, 1e-6) for at in range(3)]
    for at_ns in (0, SECOND // 2, SECOND, 7 * SECOND // 4):
        assert offset_at(samples, at_ns)[0] == pytest.approx(5.0 + at_ns * 1e-9 * 2e-5, abs=1e-12)
    assert offset_at(samples, 3 * SECOND) == pytest.approx((5.0 + 4e-5, 1e-6 + DRIFT))


def test_a_sample_that_was_held_up_is_left_out():
    assert offset_at([(0, 1.0, 1e-4), (SECOND, 1.3, 0.5)], SECOND) == pytest.approx((1.0, 1e-4 + DRIFT))


def test_a_host_that_is_held_up_between_two_clocks_has_not_slept(monkeypatch):
    gettime_ns, asked, before = time.clock_gettime_ns, set(), sample_clocks()

    def held_up_once(clock):
        result = gettime_ns(clock)
        if clock not in asked:
            asked.add(clock)
            time.sleep(0.02)
        return result

    monkeypatch.setattr(time, "clock_gettime_ns", held_up_once)
    after = sample_clocks()
    assert time.CLOCK_BOOTTIME in asked
    assert after.slept_s == pytest.approx(before.slept_s, abs=0.005)


def test_of_samples_that_know_nothing_nothing_is_known():
    lost = (0, 0.0, math.inf)
    assert offset_at([lost, lost], SECOND) == (0.0, math.inf)
    assert offset_at([lost, (SECOND, 1.0, 1e-4)], 0) == pytest.approx((1.0, 1e-4 + DRIFT))


def test_a_clock_moves_by_no_more_than_drift_and_errors_allow():
    assert excess_drift_s((0, 1.0, 1e-4), (SECOND, 1.0004, 1e-4)) == pytest.approx(1e-4)
    assert excess_drift_s((0, 1.0, 1e-4), (SECOND, 0.9998, 1e-4)) < 0


@given(
    st.integers(-(10**15), 10**15),
    st.integers(0, 2**32),
    st.tuples(st.integers(0, SECOND), st.integers(2 * SECOND, 4 * SECOND)),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_instants_of_a_run_lie_within_its_error(offset_ns, seed, looks, parts):
    truth, drawn = Truth(offset_ns, seed), random.Random(seed)
    samples = []
    for at_ns in looks:
        error_s = drawn.choice((1e-6, 1.5e-6, 1e-4))
        samples.append((at_ns, truth.ahead_ns(at_ns) * 1e-9 + drawn.choice((-1, 0, 1)) * error_s, error_s))
    clock_map = ClockMap(samples)
    for part in parts:
        at_ns = looks[0] + int(part * (looks[1] - looks[0]))
        # The error is of the other clock's instants; a second of it may be 1.0003 of ours. Both are whole ns.
        assert abs(clock_map.to_local_ns(truth.reading(at_ns)) - at_ns) <= clock_map.error_s * 1e9 * 1.0003 + 3


@pytest.mark.parametrize("errors_s", [(1e-6, 1e-6), (1e-4, 1.5e-4), (1.5e-4, 1e-4)])
def test_a_clock_that_drifts_first_this_way_and_then_that_way_is_within_the_error(errors_s):
    """At both samples it is equally far ahead, and half-way between them further, by as much as possible."""
    clock_map = ClockMap([(0, 5.0, errors_s[0]), (4 * SECOND, 5.0, errors_s[1])])
    half_ns = 2 * SECOND
    off_ns = abs(clock_map.to_local_ns(half_ns + 5 * SECOND + int(WANDER * half_ns)) - half_ns)
    assert off_ns == 2 * 10**4
    assert off_ns * 1e-9 + max(errors_s) >= clock_map.error_s >= off_ns * 1e-9 + sum(errors_s) / 2
    worst_s = max(
        offset_at([(0, 5.0, errors_s[0]), (4 * SECOND, 5.0, errors_s[1])], at * 10**6)[1] for at in range(4000)
    )
    assert clock_map.error_s == pytest.approx(worst_s, rel=1e-6)
    assert clock_map.error_s >= worst_s - 1e-15
