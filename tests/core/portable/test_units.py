import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import (
    bytes_text,
    milliseconds_text,
    parse_bytes,
    parse_percent,
    parse_rate,
    parse_seconds,
    rate_text,
    seconds_text,
)


@given(st.integers(1, 2**50))
def test_sizes_round_trip(size):
    assert parse_bytes(bytes_text(size)) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("1k", 1024), ("64K", 65536), ("100", 100), ("1.5k", 1536), (" 2m ", 2**21), ("1g", 2**30), (512, 512)],
)
def test_sizes_as_people_write_them(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(("size", "text"), [(1024, "1k"), (1500, "1500"), (65536, "64k"), (2**20, "1m"), (2**30, "1g")])
def test_size_text_is_the_shortest_exact_form(size, text):
    assert bytes_text(size) == text


@pytest.mark.parametrize("text", ["", "0", "0.3", "1.0001k", "-1", "1kb", "1e3", "k", -5])
def test_sizes_that_are_none(text):
    with pytest.raises(UsageError) as caught:
        parse_bytes(text)
    assert str(caught.value) == f"size {text!r} is not a whole number of bytes such as 512, 1k or 2m"


@given(st.integers(1, 10**6), st.sampled_from([("us", 1e-6), ("ms", 1e-3), ("s", 1), ("min", 60), ("h", 3600)]))
def test_times_scale_by_their_unit(number, unit):
    assert parse_seconds(f"{number}{unit[0]}") == pytest.approx(number * unit[1])
    assert parse_seconds(f"{number} {unit[0]}") == parse_seconds(f"{number}{unit[0]}")


@pytest.mark.parametrize("text", ["", "5", "ms", "-1s", "1 day", "1s2"])
def test_times_that_are_none(text):
    with pytest.raises(UsageError) as caught:
        parse_seconds(text)
    assert str(caught.value) == f"time {text!r} is not a number with a unit, such as 0.5ms, 10s or 5min"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0005, "0.5 ms"), (0.85, "850 ms"), (42, "42 s"), (185, "3 min 05 s"), (7800, "2 h 10 min"), (1.0, "1 s")],
)
def test_durations_for_people(seconds, text):
    assert seconds_text(seconds) == text


@given(st.integers(1, 900))
def test_milliseconds_round_trip_through_their_text(milliseconds):
    assert parse_seconds(seconds_text(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@given(st.integers(1, 10**6), st.sampled_from([("bit", 1), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)]))
def test_rates_scale_by_their_unit(number, unit):
    assert parse_rate(f"{number}{unit[0]}") == pytest.approx(number * unit[1])
    assert parse_rate(f"{number} {unit[0].upper()}") == parse_rate(f"{number}{unit[0]}")


@pytest.mark.parametrize("text", ["", "100", "0mbit", "0.0gbit", "-1mbit", "1mbps", "1mbit/s", "mbit", "1e3bit", "1MB"])
def test_rates_that_are_none(text):
    with pytest.raises(UsageError) as caught:
        parse_rate(text)
    sentence = f"rate {text!r} is not a number of bits a second such as 512kbit, 100mbit or 1gbit"
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("bit_s", "text"),
    [(1e8, "100 Mbit/s"), (1.5e6, "1.5 Mbit/s"), (1e9, "1 Gbit/s"), (512e3, "512 kbit/s"), (999, "999 bit/s"),
     (91.554e6, "91.55 Mbit/s"), (0.5, "0.5 bit/s")],
)  # fmt: skip
def test_rates_for_people(bit_s, text):
    assert rate_text(bit_s) == text


@given(st.integers(1, 9999), st.sampled_from(["bit", "kbit", "mbit", "gbit"]))
def test_rates_round_trip_through_their_text(number, unit):
    bit_s = parse_rate(f"{number}{unit}")
    assert parse_rate(rate_text(bit_s).removesuffix("/s")) == pytest.approx(bit_s)


@given(st.integers(0, 10**5))
def test_percentages_become_fractions(hundredths):
    assert parse_percent(f"{hundredths / 100:.2f}%") == pytest.approx(hundredths / 10**4)


@pytest.mark.parametrize("text", ["", "10", "0.1", "%", "-5%", "10pp"])
def test_percentages_need_their_sign(text):
    with pytest.raises(UsageError) as caught:
        parse_percent(text)
    assert str(caught.value) == f"share {text!r} is not a percentage such as 10%"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00392, "3.92"), (0.0151, "15.1"), (0.1514, "151"), (2.5, "2500"), (math.inf, "> deadline")]
)
def test_response_times_have_three_digits(seconds, text):
    assert milliseconds_text(seconds) == text
