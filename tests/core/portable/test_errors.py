"""What errors quote is bounded, whoever raises them and whatever they quote."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.portable import units
from pytest_ipperf.core.portable.errors import IpperfError, LabError, UsageError, bounded
from pytest_ipperf.plugin.options import parsers
from pytest_ipperf.protocols import PROTOCOLS

LONG = 100_000
UNITS = [getattr(units, name) for name in dir(units) if name.startswith("parse_")]
VALUES = [
    each
    for name, each in inspect.getmembers(parsers, inspect.isfunction)
    if each.__module__ == parsers.__name__ and not name.startswith("_") and len(inspect.signature(each).parameters) == 1
]
FACTORS = [factor.parse for name in PROTOCOLS for factor in PROTOCOLS[name].factors]
PARSERS = [*UNITS, *VALUES, *FACTORS, Margin.parse, Arm.parse]
piece = st.text(max_size=20) | st.sampled_from(
    ["9", "1k", "1.", "'", '"', "\\", ",", "10%,", "1e", "/s", "-", "\0", "ms"]
)
large = st.builds(lambda begin, middle, end: begin + middle * (LONG // max(1, len(middle))) + end, piece, piece, piece)


def test_there_is_something_to_try():
    assert len(UNITS) >= 4
    assert len(VALUES) >= 10


@pytest.mark.parametrize("parse", PARSERS, ids=[f"{at}-{each.__name__}" for at, each in enumerate(PARSERS)])
@settings(max_examples=8, deadline=None)
@given(text=large)
def test_no_parser_quotes_more_than_a_sentence(parse, text):
    try:
        parse(text)
    except IpperfError as error:
        assert len(str(error)) <= 1000  # noqa: PT017 - most texts are refused, and some are not


def test_a_value_gives_way_before_the_thing_and_what_would_be_right():
    value = "x" * 20_000_000
    sentence = str(UsageError(f"hosts.ini, line 3: [host beta]: ipv4 = {value!r} is not a literal IPv4 address"))
    assert sentence == (
        f"hosts.ini, line 3: [host beta]: ipv4 = '{'x' * 60}...' (20000000 characters) is not a literal IPv4 address"
    )


def test_without_quotes_the_middle_gives_way():
    sentence = str(UsageError(f"what there is: {'a, ' * 10_000}; name one"))
    assert len(sentence) <= 1000
    assert sentence.startswith("what there is: a, a, ")
    assert sentence.endswith("a, ; name one")
    assert "characters left out" in sentence


def test_what_stays_on_hosts_has_more_room_and_what_fits_is_left_alone():
    said = "host beta: " + "x" * 5000
    assert str(LabError(said)) == said
    assert str(UsageError("x" * 1000)) == "x" * 1000
    assert len(str(LabError("y" * 10**6))) <= 8000


@given(st.text(max_size=3000), st.integers(300, 2000))
def test_a_sentence_is_never_longer_than_it_may_be(sentence, most):
    short = bounded(sentence, most)
    assert len(short) <= most
    assert short == sentence or len(sentence) > most
