"""Delay variation: against RFC 3550's own code, against streams computed by hand, and what must not matter to it."""

import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.stats.delay_variation import (
    delays,
    deviations,
    ipdv,
    jitter_series,
    mean_jitter,
    mean_size,
    pdv,
)

GAP_S = 0.001
late = st.lists(st.floats(0, 0.1), min_size=2, max_size=100)


def stream(delays_s, numbers=None):
    """Make the columns of datagrams sent at an even gap, in the given order of arrival."""
    sequence = [float(number) for number in (range(len(delays_s)) if numbers is None else numbers)]
    sent = [number * GAP_S for number in sequence]
    return sequence, sent, [at + delay for at, delay in zip(sent, delays_s, strict=True)]


def by_arrival(delays_s):
    sequence, sent, received = stream(delays_s)
    rows = sorted(zip(received, sequence, sent, strict=True))
    return [[row[at] for row in rows] for at in (1, 2, 0)]


# --- RFC 3550's jitter ------------------------------------------------------------------------------------------------


def appendix_a8(transits):
    """Return the jitter of RFC 3550, appendix A.8, in whole time-stamp units, that a report holds after each packet."""
    jitter, reported = 0, []
    for before, now in pairwise(transits):
        jitter += abs(now - before) - ((jitter + 8) >> 4)
        reported.append(jitter >> 4)
    return reported


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=200))
def test_jitter_is_that_of_the_rfcs_own_code_but_for_its_rounding(transits):
    """The RFC's code rounds to sixteenths, which adds up to half a unit at most, and truncates the reported value."""
    found = jitter_series([0.0] * len(transits), [float(each) for each in transits])
    for mine, reported in zip(found, appendix_a8(transits), strict=True):
        assert -0.5 - 1e-6 <= mine - reported <= 1.5 + 1e-6


def test_jitter_by_hand():
    """Delays of 10, 26, 10 and 58: |D| of 16, 16 and 48."""
    _, sent, received = stream([10.0, 26.0, 10.0, 58.0])
    assert list(deviations(sent, received)) == pytest.approx([16, 16, 48])
    assert list(jitter_series(sent, received)) == pytest.approx([1, 1 + 15 / 16, 1.9375 + 46.0625 / 16])
    assert mean_jitter(sent, received) == pytest.approx((1 + 1.9375 + 4.81640625) / 3)


@pytest.mark.parametrize("count", [100, 1000, 10_000])
def test_of_an_even_variation_the_mean_is_as_low_as_it_says(count):
    _, sent, received = stream([0.001 * (number % 2) for number in range(count + 1)])
    assert statistics.fmean(deviations(sent, received)) == pytest.approx(0.001)
    assert mean_jitter(sent, received) == pytest.approx(0.001 * (1 - 15 / count), rel=0.001)


@given(late)
def test_jitter_is_between_nothing_and_the_largest_deviation(delays_s):
    _, sent, received = by_arrival(delays_s)
    most = max(deviations(sent, received))
    assert all(0 <= each <= most * (1 + 1e-12) for each in jitter_series(sent, received))
    mean = mean_jitter(sent, received)
    assert mean is not None
    assert mean <= statistics.fmean(deviations(sent, received)) + 1e-12


def test_the_order_of_arrival_is_that_of_the_columns():
    """The second datagram overtook the first: its delay is 4 less than the preceding one's, which is 5."""
    _, sent, received = stream([1.0, 5.0, 2.0], numbers=[1, 0, 2])
    assert list(deviations(sent, received)) == pytest.approx([4, 3])


@pytest.mark.parametrize("count", [0, 1])
def test_one_arrival_has_no_jitter(count):
    _, sent, received = stream([1.0] * count)
    assert mean_jitter(sent, received) is None


def test_columns_of_different_lengths_are_none_of_one_stream():
    with pytest.raises(ValueError, match="zip"):
        mean_jitter([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="zip"):
        delays([0.0], [1.0, 2.0], [1.0, 2.0])


# --- IPDV and PDV -----------------------------------------------------------------------------------------------------


def test_ipdv_by_hand():
    """A lost packet leaves two pairs undefined (RFC 5481), and no more."""
    found = ipdv(delays(*stream([10.0, 14.0, 11.0, 20.0, 18.0], numbers=[0, 1, 2, 4, 5])))
    assert list(found) == pytest.approx([4, -3, -2])
    assert mean_size(found) == pytest.approx(3)


def test_ipdv_goes_by_number_and_not_by_arrival():
    found = ipdv(delays(*stream([10.0, 30.0, 15.0], numbers=[0, 2, 1])))
    assert list(found) == pytest.approx([5, 15])


def test_of_several_copies_the_first_one_counts():
    """RFC 7679, section 3.5."""
    taken = delays([0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [5.0, 7.0, 9.0])
    assert taken == {0.0: 5.0, 1.0: 6.0}
    assert list(ipdv(taken)) == [1.0]


def test_pdv_is_the_999th_of_1000_above_the_smallest():
    """RFC 8219, section 7.3.1."""
    thousand = [0.5 + each / 1000 for each in range(1000)]
    assert pdv(thousand) == pytest.approx(0.998)
    assert pdv(thousand, 0.99) == pytest.approx(0.989)
    assert pdv(thousand[:999]) == pytest.approx(0.998)


def test_nothing_varies_where_there_is_nothing_to_compare():
    assert pdv([]) is None
    assert pdv([0.5]) is None
    assert mean_size([]) is None
    assert list(ipdv({0.0: 1.0, 2.0: 1.0})) == []


@given(late)
def test_the_ipdv_of_a_whole_stream_adds_up_to_what_the_last_took_longer_than_the_first(delays_s):
    found = ipdv(delays(*by_arrival(delays_s)))
    assert len(found) == len(delays_s) - 1
    assert math.fsum(found) == pytest.approx(delays_s[-1] - delays_s[0], abs=1e-9)


@given(late, st.sampled_from([0.5, 0.99, 0.999, 1.0]))
def test_no_difference_of_two_delays_exceeds_the_whole_range(delays_s, share):
    taken = delays(*by_arrival(delays_s))
    most = pdv(taken.values(), 1.0)
    found = pdv(taken.values(), share)
    assert most is not None
    assert found is not None
    assert 0 <= found <= most == pytest.approx(max(delays_s) - min(delays_s), abs=1e-9)
    assert all(abs(each) <= most + 1e-12 for each in ipdv(taken))


# --- what must not matter ---------------------------------------------------------------------------------------------


@given(late, st.floats(-1000, 1000))
def test_a_clock_that_is_ahead_changes_no_variation(delays_s, ahead_s):
    sequence, sent, received = by_arrival(delays_s)
    shifted = [at + ahead_s for at in received]
    assert list(jitter_series(sent, shifted)) == pytest.approx(list(jitter_series(sent, received)), abs=1e-9)
    plain, moved = (delays(sequence, sent, each) for each in (received, shifted))
    assert list(ipdv(moved)) == pytest.approx(list(ipdv(plain)), abs=1e-9)
    assert pdv(moved.values()) == pytest.approx(pdv(plain.values()), abs=1e-9)
    assert statistics.median(moved.values()) == pytest.approx(statistics.median(plain.values()) + ahead_s, abs=1e-9)


@given(late, st.randoms(use_true_random=False))
def test_what_goes_by_number_is_the_same_in_whatever_order_they_arrived(delays_s, random):
    order = random.sample(range(len(delays_s)), len(delays_s))
    mixed = delays(*stream([delays_s[number] for number in order], numbers=order))
    plain = delays(*stream(delays_s))
    assert ipdv(mixed) == ipdv(plain)
    assert pdv(mixed.values()) == pdv(plain.values())


@given(late, st.floats(0.1, 10))
def test_all_of_them_grow_with_the_delays(delays_s, factor):
    _, sent, _ = stream(delays_s)
    once, more = delays_s, [factor * each for each in delays_s]
    found = mean_jitter([0.0] * len(sent), more)
    assert found == pytest.approx(factor * (mean_jitter([0.0] * len(sent), once) or 0.0), abs=1e-12)
