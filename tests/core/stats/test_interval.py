import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.core.stats.interval import Interval, t_interval, t_probability, t_quantile

values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)
confidences = st.floats(0.01, 0.999)


def test_known_answer():
    # 1..5: mean 3, sd sqrt(2.5), t(.975, 4) = 2.776445, half-width 2.776445 * sqrt(2.5 / 5) = 1.963243.
    interval = t_interval([1, 2, 3, 4, 5], 0.95)
    assert (interval.estimate, interval.df, interval.confidence) == (3, 4, 0.95)
    assert interval.low == pytest.approx(3 - 1.963243, abs=1e-6)
    assert interval.high == pytest.approx(3 + 1.963243, abs=1e-6)


@pytest.mark.parametrize(
    ("p", "df", "t"), [(0.975, 9, 2.262157), (0.95, 9, 1.833113), (0.95, 1, 6.313752), (0.975, math.inf, 1.959964)]
)
def test_quantiles_are_those_of_the_printed_tables(p, df, t):
    assert t_quantile(p, df) == pytest.approx(t, abs=1e-6)
    assert t_probability(t, df) == pytest.approx(p, abs=1e-6)


@given(values, confidences)
def test_contains_its_estimate(sample, confidence):
    interval = t_interval(sample, confidence)
    assert interval.low <= interval.estimate <= interval.high


@given(values, confidences, confidences)
def test_nests_in_confidence(sample, one, other):
    narrow, wide = (t_interval(sample, confidence) for confidence in sorted((one, other)))
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@given(values, confidences)
def test_mirrors_with_its_values(sample, confidence):
    interval, mirrored = t_interval(sample, confidence), t_interval([-value for value in sample], confidence)
    assert (mirrored.low, mirrored.high) == (-interval.high, -interval.low)


@given(values, confidences, st.randoms(use_true_random=False))
def test_order_is_irrelevant(sample, confidence, random):
    shuffled = random.sample(sample, len(sample))
    assert t_interval(shuffled, confidence) == t_interval(sample, confidence)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=10), st.integers(2, 4))
def test_more_of_the_same_never_widens(sample, times):
    assume(len(set(sample)) > 1)
    once, more = t_interval(sample, 0.95), t_interval(sample * times, 0.95)
    assert more.high - more.low <= once.high - once.low


@given(st.floats(-1e6, 1e6), st.integers(2, 30))
def test_constant_values_have_no_width(value, count):
    interval = t_interval([value] * count, 0.95)
    assert interval.low == interval.high


def test_excludes_zero_only_when_both_bounds_are_on_one_side():
    bounds = [(-2.0, -1.0), (-1.0, 1.0), (0.0, 1.0), (1.0, 2.0)]
    found = [Interval(estimate=high, low=low, high=high, confidence=0.95, df=4) for low, high in bounds]
    assert [interval.excludes_zero for interval in found] == [True, False, False, True]


def test_mapped_keeps_confidence_and_freedom():
    interval = Interval(estimate=0.0, low=-1.0, high=2.0, confidence=0.9, df=7)
    assert interval.mapped(math.exp) == Interval(estimate=1.0, low=math.exp(-1), high=math.exp(2), confidence=0.9, df=7)


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ([], "0 values have no spread; an interval needs at least 2"),
        ([1.0], "1 values have no spread; an interval needs at least 2"),
        ([1.0, math.nan], "an interval needs finite values only"),
        ([1.0, math.inf], "an interval needs finite values only"),
    ],
)
def test_values_without_an_interval(sample, words):
    with pytest.raises(InvalidError) as caught:
        t_interval(sample, 0.95)
    assert str(caught.value) == words


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, math.nan])
def test_confidence_is_a_probability(confidence):
    with pytest.raises(UsageError, match=r"^confidence .* is not a probability between 0 and 1, such as 0.95$"):
        t_interval([1, 2], confidence)


@pytest.mark.parametrize(("low", "estimate", "high"), [(1.0, 0.0, 2.0), (0.0, 3.0, 2.0), (0.0, math.nan, 1.0)])
def test_bounds_that_miss_the_estimate_are_refused(low, estimate, high):
    with pytest.raises(InvalidError, match="is not between its bounds"):
        Interval(estimate=estimate, low=low, high=high, confidence=0.95, df=3)
