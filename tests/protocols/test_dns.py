"""One look-up as a conversation: the query to the byte, its end, and the failures for wrong answers."""

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable import dns
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.units import parse_bytes
from pytest_ipperf.protocols import application
from pytest_ipperf.servers.nameserver import answers, reply

DNS = application("dns")
PLAIN = 34
ADDRESSES = ("192.0.2.1", "2001:db8::1")
KNOWN = answers({DNS.host: ADDRESSES})
NONE = "dns: expected A 192.0.2.1 for host.ipperf.test, seen "
SIZES = st.one_of(st.just(PLAIN), st.integers(PLAIN + 15, 1232))


def talk(size=PLAIN, index=0, ipver=4):
    return DNS.conversation(DNS.filled(ServerState(addresses=ADDRESSES), size), index, ipver)


def record(rtype, data):
    return struct.pack("!HHHIH", 0xC00C, rtype, 1, 0, len(data)) + data


def test_the_default_payload_is_the_plain_query():
    plain = dns.query(DNS.host, dns.TYPE_A, 0)
    assert [parse_bytes(size) for size in DNS.payload] == [len(plain)]


def test_the_plain_query_asks_for_a_over_ipv4_and_for_aaaa_over_ipv6():
    question = b"\x04host\x06ipperf\x04test\x00"
    for ipver, rtype in ((4, b"\x00\x01"), (6, b"\x00\x1c")):
        header = b"\xbe\xef\x01\x00\x00\x01" + bytes(6)
        assert talk(index=0xBEEF, ipver=ipver).first_bytes() == header + question + rtype + b"\x00\x01"


@given(SIZES, st.integers(0, 1 << 20), st.sampled_from([4, 6]))
def test_a_query_has_the_payloads_size_and_is_numbered_as_its_connection(size, index, ipver):
    query = talk(size, index, ipver).first_bytes()
    assert len(query) == size
    assert query[:2] == struct.pack("!H", index % 65536)
    assert len(DNS.content(size)) == size


@given(SIZES, st.sampled_from([4, 6]))
def test_the_answer_ends_it_and_nothing_more_is_said(size, ipver):
    look_up = talk(size, 7, ipver)
    assert not look_up.finished
    assert look_up.receive_data(reply(look_up.first_bytes(), KNOWN)) == b""
    assert (look_up.finished, look_up.trouble, look_up.closing_bytes) == (True, "", b"")


def test_an_answer_to_another_question_is_not_heard():
    look_up = talk(index=7)
    assert look_up.receive_data(reply(talk(index=8).first_bytes(), {})) == b""
    assert (look_up.finished, look_up.trouble) == (False, "")
    look_up.receive_data(reply(look_up.first_bytes(), KNOWN))
    assert look_up.finished


@pytest.mark.parametrize(
    ("flags", "records", "trouble"),
    [
        (0x8403, b"", "NXDOMAIN"),
        (0x8402, b"", "SERVFAIL"),
        (0x8405, b"", "REFUSED"),
        (0x840B, b"", "RCODE 11"),
        (0x8D00, b"", "opcode 1"),
        (0x8500, b"", NONE + "no record"),
        (0x8500, record(dns.TYPE_AAAA, socket.inet_pton(socket.AF_INET6, "2001:db8::1")), NONE + "AAAA 2001:db8::1"),
        (0x8500, record(dns.TYPE_A, b"\x01\x02\x03"), "malformed"),
        (0x8500, record(dns.TYPE_A, bytes(4))[:-2], "malformed"),
        (0x8700, record(dns.TYPE_A, bytes(4)), "truncated"),
        (0x0100, b"", "not a response"),
    ],
)
def test_a_wrong_answer_is_named(flags, records, trouble):
    look_up = talk(index=7)
    query = look_up.first_bytes()
    look_up.receive_data(struct.pack("!6H", 7, flags, 1, bool(records), 0, 0) + query[12:] + records)
    assert (look_up.finished, look_up.trouble) == (False, trouble)
    assert look_up.kind == ("content" if trouble.startswith("dns: ") else "protocol")


@given(st.binary(max_size=100))
def test_garbage_is_trouble_or_not_heard(data):
    look_up = talk(index=7)
    look_up.receive_data(data)
    assert not look_up.finished
    assert bool(look_up.trouble) == (data[:2] == b"\x00\x07")


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (1, "payload 1 is too small for dns, whose query has at least 34 bytes"),
        (33, "payload 33 is too small for dns, whose query has at least 34 bytes"),
        (35, "payload 35 is not possible for dns, whose query has 34 bytes, or 49 and more where it is padded"),
        (48, "payload 48 is not possible for dns, whose query has 34 bytes, or 49 and more where it is padded"),
        (1233, "payload 1233 is too large for dns, whose query has at most 1232 bytes"),
    ],
)
def test_a_size_that_no_query_has_is_said_with_those_that_it_has(size, sentence):
    with pytest.raises(UsageError) as caught:
        DNS.content(size)
    assert str(caught.value) == sentence


def test_a_states_own_content_gives_its_size():
    assert len(DNS.conversation(ServerState(content=b"x" * 100), 0, 6).first_bytes()) == 100
    with pytest.raises(UsageError, match="payload 20 is too small for dns"):
        DNS.conversation(ServerState(content=b"x" * 20), 0, 6)
