"""Factors of a protocol, and their texts in ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, levels_from_text, values_of
from pytest_ipperf.protocols import PROTOCOLS

NO_DATAGRAM = "is not a size of a datagram here; take 32 to 65507, which both IPv4 and IPv6 support"
NO_WINDOW = "is larger than TCP supports; take 1073741824 at most (RFC 7323)"
NO_STAMPS = "rtt has no timestamps of the wire with probe 'tcp'; take udp or icmp"
FLOWS = [name for name in PROTOCOLS if PROTOCOLS[name].factors]


def values(factor: Factor):
    """Return every value that a factor accepts."""
    known = {
        "word": st.sampled_from((*(factor.words or ("",)), *(["opus.20"] if factor.further else []))),
        "bytes": st.integers(1, 2**30),
        "bit/s": st.integers(1, 10**11).map(float),
        "query/s": st.integers(1, 10**7).map(float),
        "query": st.integers(1, 10**7),
        "connection": st.integers(1, 1000),
    }[factor.unit]
    known |= st.sampled_from(factor.words) if factor.words else st.nothing()
    return known if factor.implicit is None else known | st.just(factor.implicit)


@pytest.mark.parametrize("name", FLOWS)
@given(data=st.data())
def test_what_an_id_says_of_all_factors_leads_back_to_them(name, data):
    factors = PROTOCOLS[name].factors
    levels = tuple(level for factor in factors for level in factor.held(data.draw(values(factor))))
    text = "-".join(level.text for level in levels if level.text)
    assert levels_from_text(factors, text) == levels
    names = [factor.name for factor in factors if not factor.silent or factor.name in values_of(levels)]
    assert list(values_of(levels)) == names


@pytest.mark.parametrize("name", FLOWS)
@given(data=st.data())
def test_a_level_is_read_as_it_is_written(name, data):
    for factor in PROTOCOLS[name].factors:
        value = data.draw(values(factor))
        assert factor.parse(factor.text(value)) == value


@pytest.mark.parametrize(
    ("protocol", "factor", "given", "sentence"),
    [
        ("tcp", "window", "64x", "size '64x' is not a whole number of bytes such as 512, 1k or 2m"),
        ("tcp", "direction", "left", "direction 'left' does not exist; there are up, down"),
        ("udp", "rate", "fast", "rate 'fast' is not a number of bits a second such as 512kbit, 100mbit or 1gbit"),
        ("udp", "rate", 10, "rate '10' is not a number of bits a second such as 512kbit, 100mbit or 1gbit"),
        ("rtt", "probe", "sctp", "probe 'sctp' does not exist; there are udp, tcp, connect, icmp"),
    ],
)
def test_a_level_that_makes_no_sense_is_refused_in_a_sentence(protocol, factor, given, sentence):
    (found,) = (each for each in PROTOCOLS[protocol].factors if each.name == factor)
    with pytest.raises(UsageError) as caught:
        found.parse(given)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("protocol", "connections", "payload", "values", "sentence"),
    [
        ("tcp", 257, 1024, {}, "257 parallel streams are more than tcp supports; take 256 at most"),
        ("tcp", 1, 2**27, {}, "payload 134217728 is too large for a write of tcp; take 67108864 at most"),
        ("tcp", 1, 1, {"window": 2**31}, f"window 2147483648 {NO_WINDOW}"),
        ("udp", 2, 1024, {}, "2 connections make no sense for udp, which sends one stream; take 1"),
        ("udp", 1, 31, {}, f"payload 31 {NO_DATAGRAM}"),
        ("udp", 1, 65508, {}, f"payload 65508 {NO_DATAGRAM}"),
        ("rtt", 3, 1024, {}, "3 connections make no sense for rtt, which has one probe at a time; take 1"),
        ("rtt", 1, 65500, {}, "payload 65500 is not a size of a probe; take 32 to 65499"),
        ("rtt", 1, 64, {"probe": "tcp", "waiting": "wire"}, NO_STAMPS),
    ],
)  # fmt: skip
def test_what_a_flow_cannot_be_is_refused_in_a_sentence(protocol, connections, payload, values, sentence):
    with pytest.raises(UsageError) as caught:
        PROTOCOLS[protocol].check(connections, payload, values)
    assert str(caught.value) == sentence
