"""Canned replies travel as a file, whatever bytes it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.reply_script import DATA_PORT, CannedDatagram, CannedReplies

TURNS = st.lists(st.tuples(st.binary(), st.binary())).map(tuple)


PLACES = st.lists(st.tuples(st.integers(0), st.integers(0), st.integers(0))).map(tuple)
DATAGRAMS = st.builds(CannedDatagram, st.binary(), PLACES, st.binary())


@given(st.binary(), TURNS, st.none() | st.binary(), TURNS, st.none() | DATAGRAMS)
def test_a_script_comes_back_as_it_was(greeting, turns, data, asides, datagram):
    replies = CannedReplies(greeting, turns, data, asides, datagram)
    assert CannedReplies.from_bytes(replies.to_bytes()) == replies


def test_the_number_of_the_datas_port_takes_its_place_in_the_answers():
    replies = CannedReplies(b"hello", ((b"\n", b"no port"), (b"\n", b"(|||" + DATA_PORT + b"|)")), b"data")
    assert replies.with_port(2121) == CannedReplies(b"hello", ((b"\n", b"no port"), (b"\n", b"(|||2121|)")), b"data")


def test_a_datagram_has_bytes_of_its_question():
    canned = CannedDatagram(b"0123456789", ((0, 2, 2), (4, 8, 2)))
    assert canned.answer(b"abcdef") == b"01ab4567ef"
    assert canned.answer(b"abcde") == b"01ab4567e\0"
    assert canned.answer(b"") == b"01\0\x004567\0\0"


def test_what_begins_as_a_reply_gets_no_answer():
    canned = CannedDatagram(b"R-----", ((1, 1, 5),), unanswered=b"R")
    assert canned.answer(b"Q12345") == b"R12345"
    assert canned.answer(canned.answer(b"Q12345")) == b""
    assert canned.answer(b"") == b"R" + bytes(5)  # the readiness probe
