import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.core.stats.failures import (
    newcombe,
    quantile_with_failures,
    restricted_mean,
    upper_bound_zero_failures,
    wilson,
)

DEADLINE = 1000.0
times = st.lists(st.floats(0, DEADLINE), max_size=40)
some_times = st.lists(st.floats(0, DEADLINE), min_size=1, max_size=40)
counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


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


@pytest.mark.parametrize(
    ("q", "expected"), [(0.01, 1.0), (0.07, 7.0), (0.5, 50.0), (0.95, 95.0), (0.951, 96.0), (0.999, 100.0)]
)
def test_quantile_is_some_connection_s_time(q, expected):
    assert quantile_with_failures([float(n) for n in range(100, 0, -1)], 0, q) == expected


def test_quantile_that_falls_into_the_failures_is_infinite():
    completed = [1.0] * 95
    assert quantile_with_failures(completed, 5, 0.95) == 1.0
    assert quantile_with_failures(completed, 5, 0.96) == math.inf
    assert quantile_with_failures([], 5, 0.5) == math.inf


@given(some_times, st.integers(0, 20), st.floats(0.01, 0.99))
def test_failures_never_lower_a_quantile(completed, failed, q):
    assert quantile_with_failures(completed, failed, q) >= quantile_with_failures(completed, 0, q)


@given(times, st.integers(1, 20), st.integers(1, 99))
def test_quantile_is_finite_exactly_when_enough_completed(completed, failed, percent):
    found = quantile_with_failures(completed, failed, percent / 100)
    assert math.isfinite(found) == (100 * len(completed) >= percent * (len(completed) + failed))


@given(some_times, st.integers(0, 20), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_quantiles_rise(completed, failed, one, other):
    low, high = (quantile_with_failures(completed, failed, q) for q in sorted((one, other)))
    assert low <= high


def test_quantile_is_a_share():
    with pytest.raises(UsageError, match=r"^quantile 95 is not a probability"):
        quantile_with_failures([1.0], 0, 95)
    with pytest.raises(InvalidError, match="there must be at least one"):
        quantile_with_failures([], 0, 0.5)


def test_wilson_known_answer():
    """Newcombe's own example: 81 of 263 gives .2553 to .3662."""
    interval = wilson(81, 263)
    assert interval.low == pytest.approx(0.2553, abs=5e-5)
    assert interval.high == pytest.approx(0.3662, abs=5e-5)
    assert interval.estimate == 81 / 263


@given(counts, st.floats(0.5, 0.999))
def test_wilson_stays_a_share_around_its_estimate(count, confidence):
    failed, attempted = count
    interval = wilson(failed, attempted, confidence)
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1


@given(counts)
def test_wilson_of_successes_mirrors_that_of_failures(count):
    failed, attempted = count
    of_failures, of_successes = wilson(failed, attempted), wilson(attempted - failed, attempted)
    assert of_successes.low == pytest.approx(1 - of_failures.high, abs=1e-12)


@pytest.mark.parametrize(("failed", "attempted"), [(0, 0), (2, 1), (-1, 5)])
def test_wilson_names_impossible_counts(failed, attempted):
    with pytest.raises(InvalidError) as caught:
        wilson(failed, attempted)
    assert str(caught.value) == (
        f"{failed} failures of {attempted} connections are impossible; there must be at least one"
    )


@pytest.mark.parametrize(
    ("counted", "low", "high"),
    [
        # Newcombe 1998, table II, method 10.
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((10, 10, 0, 20), 0.6791, 1.0),
        # MITRE's footnote 12: 3 failures of 100 against none of 100.
        ((3, 100, 0, 100), -0.012, 0.085),
    ],
)
def test_newcombe_known_answers(counted, low, high):
    interval = newcombe(*counted)
    assert interval.low == pytest.approx(low, abs=5e-4)
    assert interval.high == pytest.approx(high, abs=5e-4)


@given(counts, counts)
def test_newcombe_mirrors_when_the_arms_are_swapped(test, reference):
    there, back = newcombe(*test, *reference), newcombe(*reference, *test)
    assert there.estimate == -back.estimate
    assert there.low == pytest.approx(-back.high, abs=1e-12)
    assert there.high == pytest.approx(-back.low, abs=1e-12)


@given(counts, counts)
def test_newcombe_stays_a_difference_of_shares(test, reference):
    interval = newcombe(*test, *reference)
    assert -1 - 1e-12 <= interval.low <= interval.estimate <= interval.high <= 1 + 1e-12


@pytest.mark.parametrize(("n", "bound"), [(1, 0.95), (100, 0.0295), (1000, 0.0030)])
def test_no_failure_is_not_never(n, bound):
    assert upper_bound_zero_failures(n) == pytest.approx(bound, abs=5e-5)


@given(st.integers(1, 10**6), st.floats(0.001, 0.5))
def test_at_the_bound_no_failure_has_probability_alpha(n, alpha):
    assert (1 - upper_bound_zero_failures(n, alpha)) ** n == pytest.approx(alpha, rel=1e-6)


def test_no_connections_bound_nothing():
    with pytest.raises(InvalidError, match=r"^0 connections bound nothing; there must be at least one$"):
        upper_bound_zero_failures(0)
