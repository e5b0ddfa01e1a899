"""The slope of values over time with its interval."""

import random

import pytest
from scipy.stats import linregress

from pytest_ipperf.core.stats.drift import LEAST_VALUES, slope_interval
from pytest_ipperf.core.stats.interval import t_quantile

HOURS = [each / 60 for each in range(60)]


def slope_of(times, values, confidence):
    found = slope_interval(times, values, confidence)
    assert found is not None
    return found


def independent(seed, slope=0.0):
    rng = random.Random(seed)
    return [1 + slope * hour + rng.gauss(0, 0.01) for hour in HOURS]


def test_it_is_the_line_of_least_squares():
    values = independent(1, slope=0.3)
    found = slope_of(HOURS, values, 0.95)
    line = linregress(HOURS, values)
    assert found.estimate == pytest.approx(line.slope, rel=1e-12)
    assert found.low < 0.3 < found.high


def test_without_correlation_the_interval_is_that_of_the_textbook():
    # Residuals that alternate have a negative correlation, which is taken for none.
    values = [2 + 0.5 * hour + 0.01 * (-1) ** at for at, hour in enumerate(HOURS)]
    found, line = slope_of(HOURS, values, 0.9), linregress(HOURS, values)
    assert found.df == len(HOURS) - 2
    assert found.high - found.estimate == pytest.approx(t_quantile(0.95, 58) * line.stderr, rel=1e-9)


def test_values_that_resemble_their_neighbours_make_it_wider():
    rng, level, values = random.Random(3), 0.0, []
    for _ in HOURS:
        level = 0.8 * level + rng.gauss(0, 0.01)
        values.append(1 + level)
    shuffled = rng.sample(values, len(values))
    wide, narrow = slope_of(HOURS, values, 0.95), slope_of(HOURS, shuffled, 0.95)
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
    assert wide.df < narrow.df


def test_constant_values_have_no_slope_and_no_width():
    found = slope_of(HOURS, [1.0] * 60, 0.95)
    assert (found.low, found.estimate, found.high) == (0.0, 0.0, 0.0)


def test_too_few_values_or_one_instant_have_none():
    assert slope_interval(HOURS[: LEAST_VALUES - 1], [1.0] * (LEAST_VALUES - 1), 0.95) is None
    assert slope_interval([1.0] * 9, independent(1)[:9], 0.95) is None


def coverage(correlation, count, sessions, seed):
    rng, held = random.Random(seed), 0
    for _ in range(sessions):
        level, values = rng.gauss(0, 1), []
        for at in range(count):
            values.append(0.1 * at + level)
            level = correlation * level + rng.gauss(0, (1 - correlation**2) ** 0.5)
        found = slope_of(range(count), values, 0.95)
        held += found.low <= 0.1 <= found.high
    return held / sessions


@pytest.mark.parametrize(("correlation", "count", "least"), [(0.0, 30, 0.94), (0.3, 60, 0.925), (0.6, 120, 0.92)])
def test_the_interval_holds_the_true_slope_about_as_often_as_it_says(correlation, count, least):
    """Of 600 sessions with a fixed seed; without the correction it is .82 at a correlation of .3, .65 at .6."""
    assert least <= coverage(correlation, count, 600, 5) <= 0.99
