"""The server state as a value."""

import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.server_state import ServerState

STATES = st.builds(
    ServerState,
    content=st.binary(max_size=5),
    users=st.integers(0, 20),
    password=st.text(max_size=3),
    messages=st.lists(st.binary(max_size=3), max_size=3).map(tuple),
    pages=st.dictionaries(st.sampled_from(["/a", "/b", "/c/d"]), st.binary(max_size=3)),
)


@given(STATES, STATES)
def test_states_that_differ_have_different_digests_and_equal_ones_have_one(one, other):
    assert (one.digest == other.digest) == (one == other)


@given(STATES)
def test_a_digest_does_not_depend_on_the_order_of_the_pages_nor_on_the_journey(state):
    turned = dataclasses.replace(state, pages=dict(reversed(state.pages.items())))
    travelled = ServerState(**pickle.loads(pickle.dumps(dataclasses.asdict(state))))
    assert state.digest == turned.digest == travelled.digest
    assert len(state.digest) == 16


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ServerState(content=b"a", password="b"), ServerState(content=b"ab")),
        (ServerState(messages=(b"ab",)), ServerState(messages=(b"a", b"b"))),
        (ServerState(messages=(b"/a 1 x",)), ServerState(pages={"/a": b"x"})),
        (ServerState(pages={"/a": b"1 /b 1 x"}), ServerState(pages={"/a": b"", "/b": b"x"})),
    ],
)
def test_what_lies_side_by_side_is_not_confused(one, other):
    assert one.digest != other.digest


@given(st.integers(1, 50), st.integers(0, 500))
def test_connections_have_different_accounts_as_long_as_there_are_enough(users, index):
    state = ServerState(users=users)
    assert len(set(state.names)) == users
    assert state.user(index) == state.names[index % users]


@pytest.mark.parametrize("path", ["other.html", "/", "", "/a/", "//a", "/a/../b", "/./a", "/.."])
def test_a_page_outside_of_the_servers_folder_is_refused(path):
    with pytest.raises(UsageError) as caught:
        ServerState(pages={path: b""})
    assert str(caught.value) == f"page {path!r} is not a path such as /other.html"


def test_a_state_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ServerState().users = 5  # type: ignore[misc]
