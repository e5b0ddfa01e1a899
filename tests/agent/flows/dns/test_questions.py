"""Queries of a load, and the judgement of their answers: no mutated answer ever completes a query."""

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.flows.dns.questions import TRUNCATED, Questions
from pytest_ipperf.core.portable import dns
from pytest_ipperf.core.portable.dns.zone import WILDCARD, text_of
from pytest_ipperf.servers.nameserver import reply, text_records

SIZES = (1, 64, 255, 256, 1500)


def answered(questions, payload, number=0, most_bytes=65535):
    message = questions.message(number)
    return message, reply(b"\x12\x34" + message, {}, text_records({WILDCARD: text_of(payload).decode()}), most_bytes)


@given(payload=st.integers(1, 60_000), unique=st.booleans(), udp_bytes=st.sampled_from([0, 512, 1232, 4096]))
def test_the_answer_of_a_server_that_holds_the_text_is_right(payload, unique, udp_bytes):
    questions = Questions(payload, udp_bytes, unique=unique)
    for number in (0, 1, 0xFFFFFFFF):
        assert questions.trouble(*reversed(answered(questions, payload, number))) == ""


@given(number=st.integers(0, 2**32 - 1), other=st.integers(0, 2**32 - 1))
def test_queries_are_for_other_names_if_these_are_unique_and_for_one_otherwise(number, other):
    unique, again, one = (Questions(64, 1232, unique=each) for each in (True, True, False))
    assert (unique.message(number) == unique.message(other)) == (number == other)
    assert unique.message(number) != again.message(number)  # of another run
    assert one.message(number) == one.message(other)
    assert len(unique.message(number)) == len(one.message(number))


def test_a_query_is_a_message_of_rfc_1035_with_an_opt_record():
    message = Questions(64, 1232, unique=False).message(5)
    assert struct.unpack_from("!5H", message) == (0x0100, 1, 0, 0, 1)
    assert message[10:-11] == dns.question("0000000000000000.load.ipperf.test", dns.TYPE_TXT)
    assert message[-11:] == b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)
    assert Questions(64, 0, unique=False).message(5)[8:10] == b"\0\0"


@given(data=st.data(), payload=st.sampled_from(SIZES), unique=st.booleans(), known=st.booleans())
def test_no_mutated_answer_is_right(data, payload, unique, known):
    """The identifier and the two flags of recursion say nothing about the records; all else has to be as it was."""
    questions = Questions(payload, 1232, unique=unique)
    message, right = answered(questions, payload, 7)
    if known:
        assert questions.trouble(right, message) == ""
    at = data.draw(st.integers(2, len(right) - 1))
    bits = data.draw(st.integers(1, 255))
    opt = len(right) - 11
    if at == 2:
        bits &= 0xFE  # recursion desired
    if at == 3:
        bits &= 0x4F  # recursion available, and the bits of DNSSEC
    if at > opt:  # a record of another type may stand there, and the size and flags of OPT may be any
        at = data.draw(st.sampled_from([opt + 5, opt + 9, opt + 10]))  # its extended RCODE and length
    wrong = right[:at] + bytes([right[at] ^ bits]) + right[at + 1 :]
    if not bits or wrong.lower() == right.lower():
        return
    trouble = questions.trouble(wrong, message)
    assert trouble
    assert questions.trouble(right, message) == ""
    if not wrong[2] & 2:
        assert trouble != TRUNCATED


@given(cut=st.integers(0, 180), more=st.binary(max_size=3))
def test_no_answer_of_another_length_is_right(cut, more):
    questions = Questions(64, 1232, unique=True)
    message, right = answered(questions, 64, 7)
    wrong = right[: min(cut, len(right) - 1)] + more
    if wrong == right:
        return
    assert questions.trouble(wrong, message)


@given(payload=st.sampled_from(SIZES), first=st.integers(0, 99), second=st.integers(100, 199))
def test_the_answer_for_one_name_is_none_for_another(payload, first, second):
    questions = Questions(payload, 1232, unique=True)
    message, right = answered(questions, payload, first)
    other, _ = answered(questions, payload, second)
    assert questions.trouble(right, message) == ""
    trouble = questions.trouble(right, other)
    assert trouble.startswith("content: dns: expected an answer about *.load.ipperf.test TXT, seen one about ")


def test_an_answer_that_spells_its_name_is_right_for_that_name_alone():
    """Such an answer must not teach the judge that its bytes are right for any question."""
    questions = Questions(64, 0, unique=True)
    (first, right), (second, _) = answered(questions, 64, 1), answered(questions, 64, 2)
    question = first[10:]
    spelled = right[: 12 + len(question)] + question[:-4] + right[12 + len(question) + 2 :]
    assert questions.trouble(spelled, first) == ""
    lying = spelled[:12] + second[10:] + spelled[12 + len(question) :]
    assert questions.trouble(lying, second).startswith("content: dns: expected TXT of 65 bytes")


@pytest.mark.parametrize(
    ("udp_bytes", "payload", "found"), [(0, 400, ""), (0, 450, TRUNCATED), (512, 450, TRUNCATED), (4096, 3900, "")]
)
def test_an_answer_too_long_for_the_buffer_is_truncated(udp_bytes, payload, found):
    questions = Questions(payload, udp_bytes, unique=False)
    message, response = answered(questions, payload, most_bytes=0)
    assert questions.trouble(response, message) == found
    assert len(response) <= max(512, udp_bytes)


@pytest.mark.parametrize("change", [(2, 0x05), (2, 0x0F), (3, 0x05)], ids=["query", "opcode", "refused"])
def test_a_truncated_message_that_is_no_answer_is_a_failure(change):
    questions = Questions(900, 512, unique=False)
    message, response = answered(questions, 900, most_bytes=0)
    assert questions.trouble(response, message) == TRUNCATED
    at, value = change
    wrong = bytearray(response)
    wrong[at] = value | (0x02 if at == 2 else 0)
    assert questions.trouble(bytes(wrong), message) not in ("", TRUNCATED)


def test_a_cached_answer_has_a_lower_ttl_and_need_not_be_authoritative():
    strict, cached = Questions(64, 0, unique=False), Questions(64, 0, unique=False, cached_ttl_s=60)
    message, right = answered(strict, 64)
    at = len(message) + 2 + 6  # behind pointer, type and class
    aged = right[:2] + b"\x81\x80" + right[4:at] + struct.pack("!I", 59) + right[at + 4 :]
    assert cached.trouble(aged, message) == ""
    assert strict.trouble(aged, message) == "content: dns: expected a TTL of 0 s for *.load.ipperf.test, seen 59 s"
    old = aged[:at] + struct.pack("!I", 61) + aged[at + 4 :]
    said = "content: dns: expected a TTL of at most 60 s for *.load.ipperf.test, seen 61 s"
    assert cached.trouble(old, message) == said


def test_the_record_of_another_type_is_none():
    questions = Questions(64, 0, unique=False)
    message, right = answered(questions, 64)
    data = socket.inet_aton("192.0.2.1")
    record = struct.pack("!HHHIH", 0xC00C, dns.TYPE_A, 1, 0, 4) + data
    found = questions.trouble(right[: len(message) + 2] + record, message)
    assert found.endswith("seen A 192.0.2.1")
