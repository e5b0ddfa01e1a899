"""A script travels as a file, whatever bytes it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.script import Script


@given(st.binary(), st.lists(st.tuples(st.binary(), st.binary())).map(tuple))
def test_a_script_comes_back_as_it_was(greeting, turns):
    script = Script(greeting, turns)
    assert Script.from_bytes(script.to_bytes()) == script
