import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable import dns

NAMES = st.lists(st.text("abcdefghij0123456789-", min_size=1, max_size=20), min_size=1, max_size=5).map(".".join)


def response(query: bytes, rtype: int, *addresses: str, rcode: int = 0) -> bytes:
    """Answer a plain query: the question again, then records that point back to its name."""
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


def judged(message: bytes, rtype: int = dns.TYPE_A, *addresses: str, name: str = "a.test") -> tuple[str, str, bool]:
    """Judge a response about `name`, which has these addresses."""
    found = dns.answer(message, dns.question(name, rtype), addresses or ("192.0.2.1",))
    return found.address, found.trouble, found.differs


@given(NAMES, st.lists(st.ip_addresses(v=6).map(str), min_size=1, max_size=4, unique=True), st.randoms())
def test_an_answer_has_all_addresses_of_the_zone_in_any_order(name, addresses, rng):
    query = dns.query(name, dns.TYPE_AAAA, 7)
    message = response(query, dns.TYPE_AAAA, *rng.sample(addresses, len(addresses)))
    assert judged(message, dns.TYPE_AAAA, *addresses, name=name) == (addresses[0], "", False)
    for wrong in (addresses[1:], [*addresses, "2001:db8::ffff:1"], [*addresses, addresses[0]]):
        address, why, differs = judged(response(query, dns.TYPE_AAAA, *wrong), dns.TYPE_AAAA, *addresses, name=name)
        assert (address, differs) == ("", True)
        assert why.startswith("expected AAAA ")


@pytest.mark.parametrize(("rcode", "word"), [(3, "NXDOMAIN"), (2, "SERVFAIL"), (9, "RCODE 9")])
def test_a_refusal_is_named(rcode, word):
    query = dns.query("a.test", dns.TYPE_A, 1)
    assert judged(response(query, dns.TYPE_A, rcode=rcode)) == ("", word, False)


def test_an_answer_of_the_other_family_is_not_the_zones():
    query = dns.query("a.test", dns.TYPE_AAAA, 1)
    why = "expected AAAA 2001:db8::1 for a.test, seen A 192.0.2.1"
    assert judged(response(query, dns.TYPE_AAAA, "192.0.2.1"), dns.TYPE_AAAA, "2001:db8::1") == ("", why, True)


QUESTION = dns.question("a.test", dns.TYPE_A)
RIGHT = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 4) + bytes((192, 0, 2, 1))
OPT = b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)


def message(*records, flags=0x8500, question=QUESTION, counts=(), more=b""):
    """Build a response with these records in its answer section, or in sections by `counts`."""
    header = struct.pack("!6H", 1, flags, bool(question), *(counts or (len(records), 0, 0)))
    return header + question + b"".join(records) + more


def changed(at, value, record=RIGHT):
    return record[:at] + value + record[at + len(value) :]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (message(RIGHT), ""),
        (message(RIGHT, flags=0x8400), ""),
        (message(changed(0, b"\x01A\x04TEST\x00", RIGHT[:0]) + RIGHT[2:]), ""),
        (message(RIGHT, question=b"\x01A\x04tEsT\0\0\1\0\1"), ""),
        (message(RIGHT, OPT, counts=(1, 0, 1)), ""),
        (message(RIGHT, RIGHT), "expected A 192.0.2.1 for a.test, seen A 192.0.2.1, A 192.0.2.1"),
        (message(), "expected A 192.0.2.1 for a.test, seen no record"),
        (message(changed(11, b"\5", RIGHT)), "malformed"),
        (message(changed(12, bytes((203, 0, 113, 7)))), "expected A 192.0.2.1 for a.test, seen A 203.0.113.7"),
        (message(changed(9, b"\x2c")), "expected a TTL of 0 s for a.test, seen 44 s"),
        (message(changed(4, b"\0\3")), "expected A 192.0.2.1 for a.test, seen A CLASS3 192.0.2.1"),
        (message(changed(2, b"\0\5")), "expected A 192.0.2.1 for a.test, seen CNAME"),
        (message(b"\1b\xc0\x0e" + RIGHT[2:]), "expected A 192.0.2.1 for a.test, seen A 192.0.2.1 for b.test"),
        (message(RIGHT, flags=0x8100), "expected an authoritative answer, seen one without the AA flag"),
        (message(RIGHT, question=b"\1b\4test\0\0\1\0\1"), "expected an answer about a.test A, seen one about b.test"),
        (message(RIGHT, question=b""), "malformed"),
        (message(RIGHT, question=QUESTION * 2), "malformed"),
        (message(RIGHT, more=b"\0"), "malformed"),
        (message(RIGHT[:-1]), "malformed"),
        (message(RIGHT, counts=(2, 0, 0)), "malformed"),
        (message(RIGHT, changed(5, b"\1", OPT), counts=(1, 0, 1)), "malformed"),  # the rest of an RCODE
        (message(RIGHT, OPT, counts=(2, 0, 0)), "malformed"),
        (message(RIGHT, flags=0x8540), "malformed"),
        (message(b"\xc0\x19" + RIGHT[2:]), "malformed"),  # to itself
        (message(b"\xc0\x40" + RIGHT[2:]), "malformed"),  # forth
        (message(b"\xc0\x02" + RIGHT[2:]), "malformed"),  # into the header
        (message(b"\x40" + RIGHT[2:]), "malformed"),
    ],
)
def test_only_the_zones_answer_counts(said, why):
    address, trouble, _ = judged(said)
    assert (address, trouble) == ("" if why else "192.0.2.1", why)


def test_a_name_of_more_than_255_bytes_is_none():
    """RFC 1035, section 3.1: pointers must not make a longer one either."""
    labels = (b"\x3f" + b"x" * 63) * 3
    for last, fits in ((61, True), (62, False)):
        name = labels + bytes([last]) + b"y" * last + b"\0"
        said = message(b"\xc0\x0c" + RIGHT[2:], question=name + b"\0\1\0\1")
        assert (judged(said)[1] == "malformed") is not fits


@given(st.binary(max_size=200))
def test_garbage_never_raises_and_always_has_a_reason(message):
    address, why, _ = judged(message)
    assert (address, bool(why)) == ("", True)


def test_a_name_that_points_to_itself_ends():
    looping = struct.pack("!HHHHHH", 1, 0x8100, 1, 1, 0, 0) + b"\xc0\x0c" + b"\0\1\0\1"
    assert judged(looping)[1] == "malformed"
