"""Canned replies travel as a file, whatever bytes it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.reply_script import DATA_PORT, CannedReplies

TURNS = st.lists(st.tuples(st.binary(), st.binary())).map(tuple)


@given(st.binary(), TURNS, st.none() | st.binary(), TURNS)
def test_a_script_comes_back_as_it_was(greeting, turns, data, asides):
    replies = CannedReplies(greeting, turns, data, asides)
    assert CannedReplies.from_bytes(replies.to_bytes()) == replies


def test_the_number_of_the_datas_port_takes_its_place_in_the_answers():
    replies = CannedReplies(b"hello", ((b"\n", b"no port"), (b"\n", b"(|||" + DATA_PORT + b"|)")), b"data")
    assert replies.with_port(2121) == CannedReplies(b"hello", ((b"\n", b"no port"), (b"\n", b"(|||2121|)")), b"data")
