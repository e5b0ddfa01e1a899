"""Check the variance against the exact one of `statistics`."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.stats.variance import stdev, variance

NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)


@given(st.lists(NUMBERS, min_size=2, max_size=50))
def test_it_is_the_exact_one_to_rounding(values):
    # The square of a still smaller one is no number any more.
    assert stdev(values) == pytest.approx(statistics.stdev(values), rel=1e-12, abs=1e-150)


@given(NUMBERS, st.lists(st.floats(-1, 1), min_size=2, max_size=20))
def test_a_large_mean_costs_no_digits(mean, values):
    shifted = [mean + value for value in values]
    assert variance(shifted) == pytest.approx(float(statistics.pvariance(shifted) * len(values) / (len(values) - 1)))


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(2, 40))
def test_equal_values_have_none(value, count):
    assert variance([value] * count) == stdev([value] * count) == 0


@pytest.mark.parametrize("values", [[1.0, math.nan, 2.0], [math.nan, 1.0], [math.inf, 1.0], [math.inf, math.inf]])
def test_what_is_not_finite_has_no_known_spread(values):
    assert math.isnan(variance(values))
    assert math.isnan(stdev(values))
