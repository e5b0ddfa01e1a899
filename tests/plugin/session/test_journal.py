"""Writer of the journal: which items are done, and what it keeps of them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.plugin.session.journal import SessionWriter


@pytest.fixture
def writer(tmp_path):
    """Return the writer of a session with a thousand items."""
    session: Any = SimpleNamespace(
        items={f"test_it[{n}]": f"cell {n}" for n in range(1000)}, folder=tmp_path, settings=SimpleNamespace(saved="")
    )
    return SessionWriter(session)


def ended(nodeid) -> Any:
    """Return the last report of an item."""
    return SimpleNamespace(when="teardown", nodeid=nodeid)


def test_what_it_keeps_of_items_does_not_grow(writer):
    items = list(writer._session.items)
    writer.pytest_runtest_logreport(ended(items[0]))
    size = sys.getsizeof(writer._done)
    for each in items[1:]:
        writer.pytest_runtest_logreport(ended(each))
    assert sys.getsizeof(writer._done) == size
    assert writer._missing() == []


def test_an_item_is_missing_until_it_is_done_and_is_measured_only_with_a_record(writer):
    assert len(writer._missing()) == 1000
    writer._note_done("test_it[3]", "cell 3")
    writer.pytest_runtest_logreport(ended("test_it[3]"))
    writer.pytest_runtest_logreport(ended("test_it[4]"))
    assert not {"test_it[3]", "test_it[4]"} & set(writer._missing())
    assert (len(writer._missing()), writer.completeness.measured) == (998, 1)
