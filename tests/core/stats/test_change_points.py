import random
import statistics
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ipperf.core.stats.change_points import LEAST_NIGHTS, _splits, _weights, change_points


def nights(rng, *levels, count=30, sd=0.01):
    return [level + rng.gauss(0, sd) for level in levels for _ in range(count)]


@pytest.mark.parametrize("levels", [(0.0, 0.05), (0.05, 0.0), (0.0, 0.05, 0.0), (0.1, 0.0, 0.05, -0.1)])
def test_a_new_level_is_found_near_its_first_night(levels):
    found = change_points(nights(random.Random(f"{levels}"), *levels))
    assert found == pytest.approx([30 * number for number in range(1, len(levels))], abs=1)


def test_a_year_of_nights_has_its_two_changes():
    rng = random.Random("year")
    values = nights(rng, 0.0, count=200) + nights(rng, 0.02, count=100) + nights(rng, -0.01, count=65)
    assert change_points(values) == pytest.approx((200, 300), abs=3)


def test_nights_of_one_level_have_a_change_as_rarely_as_p_says():
    """2 % of 1000 courses: +- 4 standard errors of 0.44 points."""
    rng = random.Random("level")
    wrong = sum(change_points(nights(rng, 0.0), p=0.02, seed=number) != () for number in range(1000))
    assert 0.0023 <= wrong / 1000 <= 0.0377


def test_a_night_that_stands_out_is_no_new_level():
    values = nights(random.Random("odd"), 0.0)
    values[15] = 1.0
    assert change_points(values) == ()


@pytest.mark.parametrize("values", [[], [1.0], [0.0] * 4 + [1.0] * 5, [1.0] * 100])
def test_where_there_is_too_little_or_nothing_but_one_value_there_is_no_change(values):
    assert change_points(values) == ()


def test_of_ten_nights_the_halves_may_be_two_levels():
    assert change_points([0.0] * 5 + [1.0] * 5, p=0.05) == (5,)


def test_what_a_split_explains_is_its_t_statistic():
    """t² = (n - 2) B / (W) with B + W the whole sum of squares, which no order changes."""
    values = nights(random.Random("t"), 0.0, 0.01, count=10)
    mean = statistics.fmean(values)
    whole = sum((value - mean) ** 2 for value in values)
    found = _splits([value - mean for value in values], _weights(len(values)))
    for split, explained in enumerate(found, start=LEAST_NIGHTS):
        one, other = values[:split], values[split:]
        within = sum(statistics.pvariance(side) * len(side) for side in (one, other))
        assert explained == pytest.approx(whole - within)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1, width=16), max_size=40), st.integers(0, 9))
def test_points_leave_five_nights_on_each_side_and_come_again_with_the_seed(values, seed):
    found = change_points(values, p=0.05, seed=seed)
    assert found == change_points(values, p=0.05, seed=seed)
    bounds = (0, *found, len(values))
    assert all(after - before >= LEAST_NIGHTS for before, after in pairwise(bounds) if found)
