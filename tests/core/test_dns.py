import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core import dns

NAMES = st.lists(st.text("abcdefghij0123456789-", min_size=1, max_size=20), min_size=1, max_size=5).map(".".join)


def response(query: bytes, rtype: int, *addresses: str, rcode: int = 0) -> bytes:
    """What a server answers to a plain query: the question again, then records that point back to its name."""
    records = b""
    for address in addresses:
        found = dns.TYPE_AAAA if ":" in address else dns.TYPE_A
        raw = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
        records += b"\xc0\x0c" + struct.pack("!HHIH", found, 1, 0, len(raw)) + raw
    header = query[:2] + struct.pack("!HHHHH", 0x8500 | rcode, 1, len(addresses), 0, 0)
    assert rtype in (dns.TYPE_A, dns.TYPE_AAAA)
    return header + query[12:] + records


def test_a_query_is_what_rfc_1035_shows():
    expected = bytes.fromhex("abcd 0100 0001 0000 0000 0000 03777777 06697070657266 0474657374 00 001c 0001")
    assert dns.query("www.ipperf.test", dns.TYPE_AAAA, 0xABCD) == expected


@given(NAMES, st.integers(0, 65535), st.integers(0, 60000))
def test_a_padded_query_has_exactly_the_size_asked_for(name, ident, extra):
    size = len(dns.query(name, dns.TYPE_A, ident)) + 15 + extra
    assert len(dns.query(name, dns.TYPE_A, ident, size=size)) == size


def test_padding_that_does_not_fit_is_refused_in_words():
    with pytest.raises(ValueError, match="needs at least 48 bytes, not 20"):
        dns.query("www.ipperf.test", dns.TYPE_A, 1, size=20)


@given(NAMES, st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str))
def test_the_address_of_the_type_asked_for_is_found_behind_others(name, four, six):
    query = dns.query(name, dns.TYPE_AAAA, 7)
    address, why = dns.answer(response(query, dns.TYPE_AAAA, four, six), dns.TYPE_AAAA)
    assert (socket.inet_pton(socket.AF_INET6, address), why) == (socket.inet_pton(socket.AF_INET6, six), "")


@pytest.mark.parametrize(("rcode", "word"), [(3, "NXDOMAIN"), (2, "SERVFAIL"), (9, "RCODE 9")])
def test_a_refusal_is_named(rcode, word):
    query = dns.query("a.test", dns.TYPE_A, 1)
    assert dns.answer(response(query, dns.TYPE_A, rcode=rcode), dns.TYPE_A) == ("", word)


def test_an_answer_of_the_other_family_is_no_address():
    query = dns.query("a.test", dns.TYPE_AAAA, 1)
    assert dns.answer(response(query, dns.TYPE_AAAA, "192.0.2.1"), dns.TYPE_AAAA) == ("", "no address")


@given(st.binary(max_size=200))
def test_garbage_never_raises_and_always_has_a_reason(message):
    address, why = dns.answer(message, dns.TYPE_A)
    assert bool(address) != bool(why)


def test_a_name_that_points_to_itself_ends():
    looping = struct.pack("!HHHHHH", 1, 0x8000, 1, 1, 0, 0) + b"\xc0\x0c" + b"\0\1\0\1"
    assert dns.answer(looping, dns.TYPE_A)[1] == "malformed"
