"""The offset of two clocks: from paths made up, whose ways differ as they like, the error is never beyond its bound."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_ipperf.core.clock import Course, Offset, offset

AHEAD = st.floats(-1e4, 1e4)
WAYS = st.lists(st.tuples(st.floats(1e-6, 0.1), st.floats(1e-6, 0.1), st.floats(0, 0.01)), min_size=1, max_size=60)
ROUNDING_S = 1e-9


def exchanges(ahead_s, ways, start_s=100.0, gap_s=0.001):
    """One for each (there, back, between), one after another, with a clock that is ahead by so much."""
    found = []
    for number, (there_s, back_s, between_s) in enumerate(ways):
        asked_s = start_s + number * gap_s
        came_s = asked_s + there_s + ahead_s
        found.append((asked_s, came_s, came_s + between_s, asked_s + there_s + between_s + back_s))
    return found


@given(AHEAD, WAYS)
def test_the_error_is_never_beyond_its_bound(ahead_s, ways):
    found = offset(exchanges(ahead_s, ways))
    assert abs(found.offset_s - ahead_s) <= found.error_s + ROUNDING_S


@given(AHEAD, WAYS)
def test_the_bound_is_between_half_and_all_of_the_shortest_ways(ahead_s, ways):
    found = offset(exchanges(ahead_s, ways))
    shortest_s = min(there for there, *_ in ways) + min(back for _, back, _ in ways)
    assert shortest_s / 2 - ROUNDING_S <= found.error_s <= shortest_s + ROUNDING_S
    assert found.error_s <= min(there + back for there, back, _ in ways) + ROUNDING_S


@given(AHEAD, st.floats(1e-6, 0.1), st.integers(1, 50))
def test_where_both_ways_are_alike_the_offset_is_exact_and_the_bound_half_the_delay(ahead_s, way_s, count):
    found = offset(exchanges(ahead_s, [(way_s, way_s, 0.0)] * count))
    assert found.offset_s == pytest.approx(ahead_s, abs=ROUNDING_S)
    assert found.error_s == pytest.approx(way_s, abs=ROUNDING_S)


def test_rfc_5905_by_hand():
    """Theta is ((t2 - t1) + (t3 - t4)) / 2 = 99 of one exchange, and delta (t4 - t1) - (t3 - t2) = 4."""
    assert offset([(10.0, 110.0, 113.0, 17.0)]) == Offset(13.5, 98.0, 2.0)


def test_what_was_delayed_in_one_way_only_is_outvoted_by_the_fastest_tenth():
    """Of 100 exchanges 90 waited 10 ms on the way back, which puts the median of all at -5 ms."""
    found = offset(exchanges(0.0, [(1e-4, 1e-4, 0.0)] * 10 + [(1e-4, 1e-2, 0.0)] * 90))
    assert found.offset_s == pytest.approx(0, abs=ROUNDING_S)
    assert found.error_s == pytest.approx(1e-4, abs=ROUNDING_S)


def test_it_is_of_the_middle_of_the_exchanges():
    assert offset(exchanges(5.0, [(0.5, 0.5, 1.0)] * 3, start_s=10.0, gap_s=4.0)).at_s == 15.0


def test_of_no_exchange_nothing_is_known():
    assert offset([]).error_s == math.inf


def test_of_exchanges_that_contradict_each_other_nothing_is_known():
    """The far clock was set by a second in between."""
    ways = [(0.01, 0.01, 0.0)] * 5
    assert offset(exchanges(0.0, ways) + exchanges(1.0, ways, start_s=101.0)).error_s == math.inf


@given(AHEAD, st.floats(-1e-4, 1e-4), WAYS, WAYS, st.floats(0, 1))
def test_between_two_estimates_of_clocks_that_drift_evenly_the_error_is_never_beyond_its_bound(
    ahead_s, drift, before, after, share
):
    """The exchanges themselves are taken to need no time against the run of a minute."""
    ends = [
        offset(exchanges(ahead_s + drift * at_s, ways, start_s=at_s, gap_s=0.0))
        for at_s, ways in ((0.0, before), (60.0, after))
    ]
    placed = [Offset(at_s, end.offset_s, end.error_s) for at_s, end in zip((0.0, 60.0), ends, strict=True)]
    found = Course(*placed).at(60 * share)
    assert abs(found.offset_s - (ahead_s + drift * 60 * share)) <= found.error_s + ROUNDING_S
    assert found.error_s <= max(end.error_s for end in placed) * (1 + 1e-9)


def test_the_drift_is_what_the_far_clock_gains_in_a_second():
    course = Course(Offset(10.0, 1.0, 0.1), Offset(20.0, 1.5, 0.3))
    assert course.drift == pytest.approx(0.05)
    middle = course.at(15.0)
    assert middle.at_s == 15.0
    assert middle.offset_s == pytest.approx(1.25)
    assert middle.error_s == pytest.approx(0.2)
    assert course.at(30.0).error_s == pytest.approx(0.7)


def test_an_end_that_is_not_known_leaves_nothing_known():
    known, unknown = Offset(10.0, 1.0, 0.1), offset([])
    for course in (Course(known, unknown), Course(unknown, known)):
        assert course.at(10.0).error_s == math.inf
        assert course.at(0.0).error_s == math.inf


@given(AHEAD, st.floats(0, 1))
def test_without_time_between_there_is_no_drift(ahead_s, error_s):
    assume(error_s < math.inf)
    same = Offset(10.0, ahead_s, error_s)
    assert Course(same, same).drift == 0
    assert Course(same, same).at(10.0) == same
