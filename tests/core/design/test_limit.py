"""Limits: their texts, names and mistakes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.limit import EXAMPLES, FIGURES, Limit
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.metrics import METRICS


@pytest.mark.parametrize(
    ("figure", "text", "name", "title"),
    [
        ("p95", "20ms", "p95<=20ms", "95th percentile at most 20 ms"),
        ("p95", "0.02s", "p95<=20ms", "95th percentile at most 20 ms"),
        ("p999", "1.5s", "p999<=1.5s", "99.9th percentile at most 1.5 s"),
        ("p50", "800us", "p50<=800us", "median at most 800 us"),
        ("mean", "5 ms", "mean<=5ms", "mean at most 5 ms"),
        ("failed_share", "0.1pp", "failed_share<=0.1pp", "failed connections at most 0.1 %"),
        ("failed_share", "0.1%", "failed_share<=0.1pp", "failed connections at most 0.1 %"),
        ("throughput", "90mbit", "throughput>=90mbit", "throughput at least 90 Mbit/s"),
    ],
)
def test_a_limit_has_one_name_however_it_is_written(figure, text, name, title):
    limit = Limit.parse(figure, text)
    assert (limit.name, limit.metric.title) == (name, title)
    assert Limit.named(name) == limit
    assert METRICS[name].metric == limit.metric
    assert name in METRICS


@given(st.sampled_from(FIGURES), st.integers(1, 10**9))
def test_every_name_is_read_back(figure, size):
    unit = EXAMPLES[figure].lstrip("0123456789.")
    try:
        limit = Limit.parse(figure, f"{size / 1000:.3f}{unit}")
    except UsageError:
        assert figure == "failed_share"
    else:
        assert Limit.named(limit.name) == limit


def test_an_option_names_the_figure_as_well():
    assert Limit.parse_pair("p95:20ms") == Limit.parse("p95", "20ms")


@pytest.mark.parametrize("name", ["response_time", "p95", "p95<=soon", "p95<=0ms", "p97<=1ms", ""])
def test_other_names_state_no_limit(name):
    assert Limit.named(name) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("p95", "limit 'p95' is not a figure and its limit, such as p95:20ms"),
        ("p97:1ms", "figure 'p97' has no limits; there are p50, p95, p99, p999, mean, failed_share, throughput*"),
        ("p95:20", "limit '20' of p95 is not a time; use a text such as '20ms'"),
        ("p95:0ms", "limit '0ms' of p95 is not more than 0; use a text such as '20ms'"),
        ("failed_share:1ms", "limit '1ms' of failed_share is not a share in percentage points; *'0.1pp'"),
        ("failed_share:100pp", "limit '100pp' of failed_share is not between 0 and 100 percentage points; *"),
        ("throughput:5ms", "limit '5ms' of throughput is not a rate; use a text such as '90mbit'"),
    ],
)
def test_a_wrong_limit_is_told_in_a_sentence(text, sentence):

    pattern = re.escape(sentence).replace(r"\*", ".*")
    with pytest.raises(UsageError, match=f"^{pattern}$"):
        Limit.parse_pair(text)


def test_a_number_without_a_unit_is_told_as_well():
    with pytest.raises(UsageError, match=r"^limit 0\.02 of p95 has no unit; use a text such as '20ms'$"):
        Limit.parse("p95", 0.02)
