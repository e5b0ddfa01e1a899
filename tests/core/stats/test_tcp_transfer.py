"""RFC 6349's figures, with the examples that it computes itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s
from pytest_ipperf.core.stats.tcp_transfer import buffer_delay, ideal_rate, tcp_efficiency, transfer_time_ratio

positive = st.floats(1e-3, 1e9)


@pytest.mark.parametrize(("window_bytes", "rtt_s", "rate"), [(16e3, 0.005, 25.6e6), (16e3, 0.010, 12.8e6)])
def test_a_window_smaller_than_the_path_holds_bounds_the_rate(window_bytes, rtt_s, rate):
    """RFC 6349, section 3.3.1: 16 KB on 100 Mbit/s and on a T3."""
    assert ideal_rate(42.8e6, window_bytes, rtt_s) == pytest.approx(rate)
    assert ideal_rate(None, window_bytes, rtt_s) == pytest.approx(rate)


def test_a_window_larger_than_the_path_holds_leaves_the_links_ceiling():
    """RFC 6349, section 3.3.1: 64 KB on a T3 with 10 ms; section 4.1.1: 94.9 Mbit/s on Ethernet of 100."""
    assert ideal_rate(42.8e6, 64e3, 0.010) == 42.8e6
    ceiling = ceiling_bit_s(100e6, HeaderOverhead(ipver=4, stamps=False))
    assert ideal_rate(ceiling) == pytest.approx(94.9e6, abs=0.05e6)


def test_what_bounds_nothing_is_left_out():
    assert ideal_rate() is None
    assert ideal_rate(None, 64e3, None) is None
    assert ideal_rate(None, 64e3, 0.0) is None
    assert ideal_rate(None, None, 0.01) is None
    assert ideal_rate(1e8, 64e3, None) == 1e8


def test_five_files_of_100_mb_at_500_mbit_in_12_seconds():
    """RFC 6349, section 4.1.2."""
    assert transfer_time_ratio(5 * 100e6, 12, 500e6) == pytest.approx(1.5)


def test_2000_of_102000_bytes_repeated():
    """RFC 6349, section 4.2.1, which cuts 98.039 % off."""
    assert tcp_efficiency(102_000, 2000) == pytest.approx(0.9803, abs=1e-4)


def test_32_ms_on_a_path_of_25():
    """RFC 6349, section 4.3.1."""
    assert buffer_delay(0.032, 0.025) == pytest.approx(0.28)


def test_without_an_ideal_or_a_transfer_there_are_no_figures():
    assert transfer_time_ratio(1e6, 1.0, None) is None
    assert transfer_time_ratio(0.0, 1.0, 1e8) is None
    assert tcp_efficiency(0.0, 0.0) is None
    assert buffer_delay(0.01, 0.0) is None
    assert buffer_delay(0.0, 0.01) is None


@given(positive, positive, positive)
def test_at_the_ideal_rate_the_ratio_is_one_and_grows_with_the_time(ideal, seconds, factor):
    payload_bytes = ideal * seconds / 8
    assert transfer_time_ratio(payload_bytes, seconds, ideal) == pytest.approx(1)
    assert transfer_time_ratio(payload_bytes, factor * seconds, ideal) == pytest.approx(factor)


@given(positive, st.floats(0, 1))
def test_efficiency_is_a_share(sent, repeated):
    assert tcp_efficiency(sent, repeated * sent) == pytest.approx(1 - repeated, abs=1e-9)


@given(positive, positive, positive)
def test_the_ideal_is_the_smaller_bound(ceiling, window, rtt_s):
    found = ideal_rate(ceiling, window, rtt_s)
    assert found == min(ceiling, 8 * window / rtt_s)
