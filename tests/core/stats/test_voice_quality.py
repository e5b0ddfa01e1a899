"""Quality of calls: packets as a device with a de-jitter buffer plays them, and their rating."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.traffic.model import Speech
from pytest_ipperf.core.stats.e_model import Connection, r_factor
from pytest_ipperf.core.stats.voice_quality import BUFFER_S, LEAST_R, HeardStream, heard_stream, rating

G711 = Speech(ie=0.0, bpl=4.3, delay_s=0.02)


def test_packets_later_than_the_buffer_are_lost():
    delays_s = dict.fromkeys(range(100), 0.01) | {7: 0.059, 8: 0.061, 50: 0.3}
    heard = heard_stream(delays_s, 100)
    assert (heard.delay_s, heard.loss) == pytest.approx((0.06, 0.02))
    assert heard.burst_ratio == 1.0


def test_packets_that_never_came_are_lost_wherever_they_were():
    assert heard_stream(dict.fromkeys(range(5, 95), 0.01), 100).loss == pytest.approx(0.1)
    assert heard_stream({number: 0.01 for number in range(100) if number % 10}, 100).loss == pytest.approx(0.1)


def test_numbers_that_were_never_sent_are_no_losses():
    assert heard_stream({number: 0.01 for number in range(100) if number % 10}, 90).loss == 0


def test_bursts_are_as_long_as_losses_in_a_row_against_random_ones():
    """G.107: BurstR is the mean burst, divided by 1 / (1 - p) of random losses."""
    in_twos = {number: 0.01 for number in range(100) if number not in (20, 21, 60, 61)}
    assert heard_stream(in_twos, 100).burst_ratio == pytest.approx(2 * 0.96)
    alone = {number: 0.01 for number in range(100) if number not in (20, 60)}
    assert heard_stream(alone, 100).burst_ratio == 1.0
    gone = {number: 0.01 for number in range(100) if not 10 < number < 90}
    assert heard_stream(gone, 100).burst_ratio == 8.0


def test_a_rating_has_the_delays_of_both_directions():
    heard = HeardStream(0.1, 0.02, 1.0)
    wanted = Connection(delay_s=0.12, echo_delay_s=0.17, round_trip_s=0.34, loss=0.02)
    assert rating(heard, G711, 0.2) == pytest.approx(r_factor(wanted))


def test_a_local_call_is_good_and_one_through_a_full_queue_is_not():
    assert rating(HeardStream(BUFFER_S, 0.0, 1.0), G711, BUFFER_S) == pytest.approx(91.5, abs=0.5)
    assert rating(HeardStream(0.45, 0.7, 8.0), G711, BUFFER_S) == LEAST_R


@given(st.dictionaries(st.integers(0, 500), st.floats(0, 3), min_size=1), st.integers(0, 50))
def test_every_stream_has_a_rating_on_the_scale(delays_s, more):
    heard = heard_stream(delays_s, len(delays_s) + more)
    assert 0 <= heard.loss <= 1
    assert LEAST_R <= rating(heard, G711, heard.delay_s) <= 100
