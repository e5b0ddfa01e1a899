import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.failures import restricted_mean

DEADLINE = 1000.0
times = st.lists(st.floats(0, DEADLINE), max_size=40)
some_times = st.lists(st.floats(0, DEADLINE), min_size=1, max_size=40)


def test_restricted_mean_known_answer():
    assert restricted_mean([1.0, 2.0, 3.0], 1, 10.0) == 4.0
    assert restricted_mean([], 3, 10.0) == 10.0


def test_a_study_that_dropped_its_failures_would_have_been_refuted():
    """MITRE's HTTP at 100 connections, 84.8 ms: with 3 % failures and a deadline of 3 s the mean is 172.3 ms."""
    assert restricted_mean([0.0848] * 97, 3, 3.0) == pytest.approx(0.1723, abs=5e-5)


@given(times, st.integers(1, 20), st.integers(0, 5))
def test_failures_never_lower_the_restricted_mean(completed, failed, more):
    mean = restricted_mean(completed, failed, DEADLINE)
    assert restricted_mean(completed, failed + more, DEADLINE) >= mean - 1e-9
    assert mean <= DEADLINE + 1e-9


@given(some_times, st.integers(0, 20))
def test_restricted_mean_is_at_least_that_of_the_completed(completed, failed):
    assert restricted_mean(completed, failed, DEADLINE) >= restricted_mean(completed, 0, DEADLINE) - 1e-9


@pytest.mark.parametrize(
    ("completed", "failed", "words"),
    [
        ([], 0, "0 completed and 0 failed connections are impossible; there must be at least one"),
        ([1.0], -1, "1 completed and -1 failed connections are impossible; there must be at least one"),
        ([1.0, 11.0], 0, "a connection completed after 11 s, past the deadline of 10 s"),
        ([-1.0], 0, "a completed connection has a finite time of zero or more seconds"),
        ([math.nan], 0, "a completed connection has a finite time of zero or more seconds"),
        ([math.inf], 0, "a completed connection has a finite time of zero or more seconds"),
    ],
)
def test_impossible_outcomes_are_named(completed, failed, words):
    with pytest.raises(InvalidError) as caught:
        restricted_mean(completed, failed, 10.0)
    assert str(caught.value) == words
