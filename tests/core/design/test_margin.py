import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.metrics import METRICS

TIME, RATE, LOSS = (METRICS[name].metric for name in ("response_time", "throughput", "loss"))
RATIO = METRICS["transfer_time_ratio"].metric

shares = st.floats(0, 1)
per_mille = st.integers(0, 2000).map(lambda number: f"{number / 10:g}")
floors = st.one_of(
    st.builds(
        lambda number, unit: f"{number / 10:g}{unit}", st.integers(0, 50_000), st.sampled_from(["us", "ms", "s"])
    ),
    st.integers(0, 5000).map(lambda number: f"{number / 100:g}pp"),
)
texts = st.one_of(
    per_mille.map(lambda share: f"{share}%"),
    st.builds(lambda share, floor: f"{share}%,{floor}", per_mille, floors),
    st.integers(0, 5000).map(lambda number: f"{number / 100:g}pp"),
    per_mille.map(lambda share: f"{share}%+headers"),
)


@pytest.mark.parametrize(
    ("text", "at_least", "margin"),
    [
        ("10%", None, Margin(0.1)),
        ("10 %", None, Margin(0.1)),
        ("10%", "0.5ms", Margin(0.1, 0.0005)),
        ("10%,0.5ms", None, Margin(0.1, 0.0005)),
        (" 2.5% , 1s ", None, Margin(0.025, 1.0)),
        ("10%,0.02ms", None, Margin(0.1, 2e-5)),
        ("10%,20us", None, Margin(0.1, 2e-5)),
        ("0%", None, Margin(0.0)),
        ("150%", None, Margin(1.5)),
        ("1pp", None, Margin(0.0, 0.01, "1")),
        ("0.5 pp", None, Margin(0.0, 0.005, "1")),
        ("0%,1pp", None, Margin(0.0, 0.01, "1")),
        ("10%,0.5pp", None, Margin(0.1, 0.005, "1")),
        ("10%", "0.5pp", Margin(0.1, 0.005, "1")),
        ("0pp", None, Margin(0.0)),
        ("5%+headers", None, Margin(0.05, headers=True)),
        ("5 %+headers", None, Margin(0.05, headers=True)),
        ("0%+headers", None, Margin(0.0, headers=True)),
    ],
)
def test_it_parses(text, at_least, margin):
    assert Margin.parse(text, at_least=at_least) == margin


@pytest.mark.parametrize(
    ("text", "at_least", "words"),
    [
        ("10", None, "share '10' is not a percentage such as 10%"),
        ("", None, "share '' is not a percentage such as 10%"),
        ("-5%", None, "share '-5%' is not a percentage such as 10%"),
        ("5%+header", None, "share '5%+header' is not a percentage such as 10%"),
        ("10%,5", None, "time '5' is not a number with a unit, such as 0.5ms, 10s or 5min"),
        ("10%,", None, "time '' is not a number with a unit, such as 0.5ms, 10s or 5min"),
        ("-1pp", None, "difference '-1pp' is not a number of percentage points such as 0.5pp"),
        ("10%,xpp", None, "difference 'xpp' is not a number of percentage points such as 0.5pp"),
        ("1pp+headers", None, "share '1pp' is not a percentage such as 10%"),
        ("10%,1ms,2ms", None, "margin '10%,1ms,2ms' has more than one floor; use 10% or 10%,0.5ms"),
        ("10%,1ms", "2ms", "margin '10%,1ms' has more than one floor; use 10% or 10%,0.5ms"),
        ("1pp,2pp", None, "margin '1pp,2pp' has more than one floor; use 10% or 10%,0.5ms"),
    ],
)
def test_what_is_wrong_is_named(text, at_least, words):
    with pytest.raises(UsageError) as caught:
        Margin.parse(text, at_least=at_least)
    assert str(caught.value) == words


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_it_is_zero_or_more(value):
    with pytest.raises(UsageError, match=r"^margin .* is not a number of zero or more$"):
        Margin(value)
    with pytest.raises(UsageError, match=r"^at least .* is not a number of zero or more$"):
        Margin(0.1, value)


@pytest.mark.parametrize(
    ("margin", "text", "description"),
    [
        (Margin(0.1), "10%", "10 %"),
        (Margin(0.07), "7%", "7 %"),
        (Margin(0.1, 0.0005), "10%,0.5ms", "10 % (at least 0.5 ms)"),
        (Margin(0.1, 2e-5), "10%,20us", "10 % (at least 20 us)"),
        (Margin(0.0, 1.5), "0%,1.5s", "0 % (at least 1.5 s)"),
        (Margin(0.0, 0.005, "1"), "0.5pp", "0.5 pp"),
        (Margin(0.1, 0.005, "1"), "10%,0.5pp", "10 % (at least 0.5 pp)"),
        (Margin(0.05, headers=True), "5%+headers", "5 % after headers"),
        (Margin(0.0), "0%", "0 %"),
    ],
)
def test_it_reads_as_people_write_it(margin, text, description):
    assert (str(margin), margin.description) == (text, description)


@given(texts)
def test_its_text_is_read_as_the_same_margin(text):
    margin = Margin.parse(text)
    assert Margin.parse(str(margin)) == margin


@given(shares, shares, st.floats(1e-6, 1e3))
def test_the_larger_part_counts(relative, at_least, reference):
    fraction = Margin(relative, at_least).effective(reference)
    assert fraction >= relative
    # The last term is for floors so small that floats run out of digits.
    assert fraction * reference >= at_least * (1 - 1e-12) - 1e-300


@given(shares, shares, shares)
def test_of_shares_the_larger_difference_counts(relative, at_least, reference):
    allowed = Margin(relative, at_least, "1").effective(reference, "difference")
    assert allowed == max(relative * reference, at_least)


def test_known_answers_of_shares():
    margin = Margin.parse("10%,0.5pp")
    assert [margin.effective(loss, "difference") for loss in (0.0, 0.01, 0.2)] == [0.005, 0.005, pytest.approx(0.02)]
    assert Margin.parse("10%").effective(0.0, "difference") == 0
    assert Margin.parse("1pp").effective(0.3, "difference") == 0.01


@pytest.mark.parametrize("reference", [0.0, -1.0, math.nan, math.inf])
def test_a_ratio_needs_a_reference(reference):
    with pytest.raises(InvalidError, match=r"^reference value .* is not a positive finite number$"):
        Margin(0.1).effective(reference)


def test_headers_come_before_the_share():
    # Of 100, headers leave 98.6, and 5 % less than that is 93.67.
    margin = Margin.parse("5%+headers")
    assert margin.effective(1e8, header_cost=0.014) == pytest.approx(1 - 0.9367)
    assert margin.effective(1e8) == 0.05
    assert Margin.parse("5%").effective(1e8, header_cost=0.014) == 0.05


@given(shares, shares)
def test_what_headers_leave_is_never_less_than_nothing(relative, cost):
    allowed = Margin(relative, headers=True).effective(1.0, header_cost=cost)
    assert max(relative, cost) * (1 - 1e-12) <= allowed <= 1 + 1e-12


@pytest.mark.parametrize("name", METRICS)
def test_what_is_asked_without_a_margin_fits_the_metric(name):
    metric = METRICS[name].metric
    margin = Margin.parse(metric.margin)
    margin.check(metric)
    assert str(margin) == metric.margin


@pytest.mark.parametrize(
    ("text", "metric", "words"),
    [
        (
            "10%,0.5ms",
            LOSS,
            "margin '10%,0.5ms' has a floor in time, and loss is a share; use a margin such as 0.5pp",
        ),
        (
            "1pp",
            TIME,
            (
                "margin '1pp' has a floor in percentage points, and response time per connection is a time; "
                "use a margin such as 10%,0.5ms"
            ),
        ),
        (
            "10%,1ms",
            replace(RATE, title="throughput"),
            "margin '10%,1ms' has a floor in time, and throughput is a rate; use a margin such as 5%+headers",
        ),
        (
            "10%,1pp",
            replace(RATIO, title="waiting"),
            "margin '10%,1pp' has a floor in percentage points, and waiting is a ratio; use a margin such as 10%",
        ),
        (
            "5%+headers",
            LOSS,
            "margin '5%+headers' compensates for headers, which do not affect loss; use a margin such as 0.5pp",
        ),
        ("100%", RATE, "margin 100 % would let a rate vanish; use less than 100 % for a rate"),
    ],
)
def test_what_does_not_fit_a_metric_is_named(text, metric, words):
    with pytest.raises(UsageError) as caught:
        Margin.parse(text).check(metric)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("text", "metric"), [("10%", LOSS), ("150%", LOSS), ("150%", TIME), ("10%", RATE), ("0%", RATIO)]
)
def test_a_share_alone_fits_every_metric(text, metric):
    Margin.parse(text).check(metric)
