import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.percentile import RepetitionSummary, median, percentile, repetition_summary

EXAMPLE = [-2, 7, 7, 4, 18, -5]
"""The example of RFC 2330, section 11.3."""
values = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200)
shares = st.integers(1, 1000).map(lambda permille: permille / 1000)


@pytest.mark.parametrize(("share", "expected"), [(0.25, -2), (0.5, 4), (0.51, 7), (0.83, 7), (1.0, 18)])
def test_the_percentiles_of_rfc_2330(share, expected):
    assert percentile(EXAMPLE, share) == expected


def test_the_median_of_rfc_2330_is_not_its_50th_percentile():
    assert median(EXAMPLE) == 5.5
    assert median([7, -5, 4]) == 4


@given(values, shares)
def test_it_is_the_smallest_value_that_the_share_does_not_exceed(sample, share):
    found = percentile(sample, share)
    assert found in sample
    permille = round(1000 * share)
    assert 1000 * sum(each <= found for each in sample) >= permille * len(sample)
    assert 1000 * sum(each < found for each in sample) < permille * len(sample)


@given(values, shares, shares)
def test_percentiles_rise(sample, one, other):
    low, high = (percentile(sample, share) for share in sorted((one, other)))
    assert min(sample) <= low <= high <= max(sample) == percentile(sample, 1)


@given(values, shares, st.randoms(use_true_random=False))
def test_order_is_irrelevant(sample, share, random):
    shuffled = random.sample(sample, len(sample))
    assert percentile(shuffled, share) == percentile(sample, share)
    assert median(shuffled) == median(sample)


@pytest.mark.parametrize(("share", "rank"), [(0.07, 7), (0.14, 14), (0.28, 28), (0.29, 29), (0.55, 55), (0.999, 100)])
def test_a_share_is_meant_as_it_is_written(share, rank):
    """0.07 x 100 is above 7 in floating point."""
    assert percentile(range(1, 101), share) == rank


@given(st.lists(st.floats(0, 10), max_size=50), st.integers(0, 50))
def test_a_median_is_finite_exactly_when_less_than_half_took_for_ever(arrived, lost):
    if arrived or lost:
        assert math.isfinite(median([*arrived, *[math.inf] * lost])) == (lost < len(arrived))


@pytest.mark.parametrize("share", [0, -0.1, 1.01, 99, math.nan])
def test_a_share_is_above_zero_and_at_most_all(share):
    with pytest.raises(ValueError, match=r"is no share of the values; 0.99 is one"):
        percentile([1.0], share)


@pytest.mark.parametrize("of", [lambda none: percentile(none, 0.5), median, repetition_summary])
def test_nothing_has_no_percentile(of):
    with pytest.raises(InvalidError, match=r"^0 values have no percentile; there must be at least one$"):
        of([])


def test_of_twenty_repetitions_the_outer_percentiles_are_the_outermost_values():
    """RFC 8219 asks for at least 20; 1 % of them is less than one."""
    assert repetition_summary(range(20, 0, -1)) == RepetitionSummary(10.5, 1, 20)
    assert repetition_summary(range(200, 0, -1)) == RepetitionSummary(100.5, 2, 198)
