"""Typed values are encoded as plain data and decoded again; a mismatch is reported with its place."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.rpc.codec import Decoder, encoded
from pytest_ipperf.core.portable.errors import AgentError, UsageError
from pytest_ipperf.core.portable.server_state import ServerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    number: int
    share: float | None = None


@dataclass(frozen=True)
class Whole:
    rows: bytes
    failed: Counter[str]
    families: frozenset[int]
    parts: tuple[Part, ...]
    by_role: Mapping[str, Part]
    pair: tuple[int, float] = (0, 0.0)
    names: list[str] = field(default_factory=list)
    spare: Part | None = None
    level: int | float | str = 0
    kept: dict[str, object] = field(default_factory=dict)


WHOLE = Whole(
    rows=b"\0" * 56,
    failed=Counter("aab"),
    families=frozenset({10, 2}),
    parts=(Part(number=1), Part(number=2, share=0.5)),
    by_role={"client": Part(number=3)},
    pair=(4, 1.5),
    names=["x"],
    kept={"anything": [1, {"more": None}]},
)
PARTS = st.builds(Part, number=st.integers(), share=st.none() | st.floats(allow_nan=False))
WHOLES = st.builds(
    Whole,
    rows=st.binary(),
    failed=st.dictionaries(st.text(), st.integers()).map(Counter),
    families=st.frozensets(st.integers()),
    parts=st.lists(PARTS).map(tuple),
    by_role=st.dictionaries(st.text(), PARTS),
    spare=st.none() | PARTS,
    level=st.integers() | st.floats(allow_nan=False) | st.text(),
)


def decoded(plain, of: Any = Whole, **settings):
    return Decoder(**settings).decode(of, plain, "call 'load': spec")


@given(WHOLES)
def test_a_value_comes_back_as_it_was(whole):
    back = decoded(pickle.loads(pickle.dumps(encoded(Whole, whole))))
    assert back == whole
    assert type(back.failed) is Counter


def test_it_travels_as_plain_data_under_the_names_of_its_fields():
    plain = encoded(Whole, WHOLE)
    assert plain["failed"] == {"a": 2, "b": 1}
    assert type(plain["failed"]) is dict
    assert plain["families"] == [2, 10]
    assert plain["parts"] == [{"number": 1, "share": None}, {"number": 2, "share": 0.5}]
    assert plain["rows"] is WHOLE.rows  # packed samples are not touched
    assert decoded(plain).rows is WHOLE.rows


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rows": "text"}, "rows: expected bytes, got 'text'"),
        ({"names": ["a", 1]}, "names[1]: expected str, got 1"),
        ({"parts": [{"number": 1, "share": "much"}]}, "parts[0].share: expected None or float, got 'much'"),
        ({"parts": [{"number": True, "share": None}]}, "parts[0].number: expected int, got True"),
        ({"by_role": {"client": {"number": 1}}}, "by_role['client']: Part lacks 'share'"),
        ({"spare": {"number": 1, "share": None, "x": 1}}, "spare: Part has no field 'x'"),
        ({"pair": [1]}, "pair: expected tuple[int, float], got [1]"),
        ({"level": None}, "level: expected float or int or str, got None"),
        ({"failed": {"a": 1.5}}, "failed['a']: expected int, got 1.5"),
        ({"failed": {2: 1}}, "failed[2]: expected str, got 2"),
        ({"families": 7}, "families: expected list, got 7"),
        ({"other": 1}, "Whole has no field 'other'"),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_its_place(changed, words):
    with pytest.raises(AgentError) as caught:
        decoded({**encoded(Whole, WHOLE), **changed})
    assert str(caught.value) == f"call 'load': spec: {words}"


def test_a_missing_field_is_named_also_where_it_has_a_default():
    plain = encoded(Whole, WHOLE)
    del plain["spare"], plain["pair"]
    with pytest.raises(AgentError, match=r"^call 'load': spec: Whole lacks 'pair', 'spare'$"):
        decoded(plain)


def test_a_value_that_is_no_such_thing_is_shown_in_short():
    with pytest.raises(AgentError, match=r"^call 'load': spec: expected Whole, got '(x{59})\.\.\.$"):
        decoded("x" * 1000)


def test_an_integer_is_taken_for_a_float_and_stays_one():
    """Records keep counts as they were."""
    share = decoded({"number": 1, "share": 2}, Part).share
    assert (share, type(share)) == (2, int)


def test_texts_pass_through_a_function_wherever_they_are():
    made = decoded({"a": ["b", ("c", b"c")]}, dict[str, object], text=str.upper)
    assert made == {"A": ["B", ("C", b"c")]}
    assert decoded({"a": "b"}, dict[str, str], text=str.upper) == {"A": "B"}


def test_the_sentence_of_a_value_that_checks_itself_stays_as_it_is():
    plain = encoded(ServerState, ServerState())
    with pytest.raises(UsageError, match=r"^page 'x' is not a path"):
        decoded({**plain, "pages": {"x": b""}}, ServerState)


def test_a_type_that_cannot_travel_is_refused_before_anything_is_sent():
    with pytest.raises(TypeError, match=r"cannot be part of a message"):
        Decoder().decoder(complex)
