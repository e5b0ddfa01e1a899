"""Acceptances: lines that are never lost, and never skipped."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.nightly.acceptance import Acceptance, acceptance_of
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.store import accept, acceptances, withdraw
from pytest_ipperf.store.history.acceptances import FILE
from pytest_ipperf.store.history.acceptances import _plain as _plain_line

DAY = dt.date(2026, 11, 22)
AT = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC).timestamp()
ONE = Acceptance(
    cell="lab-*", metric="loss", reason="a new kernel", by="ada", at=AT, until=DAY + dt.timedelta(days=30), up_to=0.02
)


def test_without_a_file_nothing_was_accepted(tmp_path):
    assert acceptances(tmp_path) == []


@given(
    st.lists(
        st.builds(
            Acceptance, cell=st.text(min_size=1), metric=st.text(), reason=st.text(), by=st.text(),
            at=st.floats(0, 1e10), until=st.dates(), up_to=st.none() | st.floats(0, 10, exclude_min=True),
        )
    )
)  # fmt: skip
def test_what_was_accepted_comes_back_in_its_order(tmp_path_factory, accepted):
    root = tmp_path_factory.mktemp("accepted") / "new"
    for each in accepted:
        accept(root, each)
    assert acceptances(root) == accepted


def test_a_withdrawal_ends_what_was_said_of_that_very_pattern_before(tmp_path):
    other = Acceptance(**{**_plain(ONE), "cell": "lab-a"})
    for each in (ONE, other):
        accept(tmp_path, each)
    withdraw(tmp_path, "lab-*", reason="it is mended", by="ada", at=AT + 86400)
    again = Acceptance(**{**_plain(ONE), "at": AT + 90000})
    found = acceptances(tmp_path)
    assert [each.until for each in found] == [DAY, other.until]
    assert (found[0].reason, found[0].holds(DAY)) == (ONE.reason, True)
    accept(tmp_path, again)
    assert acceptances(tmp_path)[-1] == again
    assert acceptance_of(HistoryKey("lab-b", "loss"), acceptances(tmp_path), DAY + dt.timedelta(days=9)) == again
    withdrawn = json.loads((tmp_path / FILE).read_text().splitlines()[2])
    assert (withdrawn["withdrawn"], withdrawn["reason"], withdrawn["by"]) == ("lab-*", "it is mended", "ada")


def test_what_was_said_later_is_not_told_of_an_earlier_time(tmp_path):
    """A night can be decided again as it was, even if it ended on the day of a withdrawal."""
    accept(tmp_path, ONE)
    withdraw(tmp_path, "lab-*", reason="it is mended", by="ada", at=AT + 60)
    accept(tmp_path, Acceptance(**{**_plain(ONE), "at": AT + 120}))
    assert acceptances(tmp_path, by=AT - 1) == []
    assert acceptances(tmp_path, by=AT + 59) == [ONE]
    assert [each.holds(DAY) for each in acceptances(tmp_path, by=AT + 60)] == [False]
    assert [each.holds(DAY) for each in acceptances(tmp_path, by=AT + 120)] == [False, True]


def _plain(acceptance):
    return {name: getattr(acceptance, name) for name in acceptance.__slots__}


@pytest.mark.parametrize("line", ["nonsense", "{}", '{"withdrawn": "x"}', "[]", '{"cell": "x", "until": "soon"}', ""])
def test_a_line_that_is_none_is_told_and_not_skipped(tmp_path, line):
    accept(tmp_path, ONE)
    with (tmp_path / FILE).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UsageError) as raised:
        acceptances(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path}/{FILE}:2: {line!r} is not an acceptance (")
    assert str(raised.value).endswith("); remove the line")


def test_where_it_cannot_be_written_that_is_said(tmp_path):
    (tmp_path / FILE).mkdir()
    words = rf"^{tmp_path}/{FILE} cannot be read \(Is a directory\); the acceptances are unknown$"
    with pytest.raises(UsageError, match=words):
        accept(tmp_path, ONE)


INVALID_EVENT_ERRORS: dict[str, list[Any]] = {
    "cell": ["", 7, None, "\ud800"], "metric": [None, ["loss"]], "reason": [7], "by": [None],
    "at": ["1", -1, math.nan, math.inf, True, 1e300, 10**400], "until": [None, "soon", 20270131, "2027-02-30"],
    "up_to": ["0.1", 0, -0.1, math.nan, math.inf, True, 10**400], "colour": [7],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in INVALID_EVENT_ERRORS.items() for value in values]
)
@pytest.mark.parametrize("withdrawn", [False, True])
def test_each_value_is_one_that_an_acceptance_can_have(tmp_path, name, value, withdrawn):
    """The lines have no checksum, as in earlier versions, so that only their values can be wrong."""
    plain = {"reason": "a new kernel", "by": "ada", "at": AT}
    plain |= {"withdrawn": "lab-*"} if withdrawn else {"cell": "lab-*", "metric": "", "until": "2027-01-31", "up_to": 1}
    (tmp_path / FILE).write_text(json.dumps(plain) + "\n")
    assert len(acceptances(tmp_path)) == (not withdrawn)
    key = "withdrawn" if withdrawn and name == "cell" else name
    (tmp_path / FILE).write_text(json.dumps({**plain, key: value}) + "\n")
    with pytest.raises(UsageError, match=rf"/{FILE}:1: .* is not an acceptance \(.*\); remove the line$"):
        acceptances(tmp_path)


@pytest.mark.parametrize("key", ["cell", "metric", "reason", "by", "at", "until", "up_to"])
def test_a_value_that_is_missing_is_no_other_one(tmp_path, key):
    plain = {**_plain(ONE), "until": "2027-01-31"}
    del plain["withdrawn"], plain[key]
    (tmp_path / FILE).write_text(json.dumps(plain) + "\n")
    with pytest.raises(UsageError, match=rf"/{FILE}:1: .* \(it has no '{key}'\); remove the line$"):
        acceptances(tmp_path)


def test_a_byte_that_turned_is_seen(tmp_path):
    """A flipped byte could give another valid day, level or cell, and accept what nobody accepted.

    Each byte is changed to all other values, newlines included.
    """
    accept(tmp_path, ONE)
    line = (tmp_path / FILE).read_bytes()
    assert _plain_line(line[:-1])
    passed = []
    for at in range(len(line) - 1):
        for byte in set(range(256)) - {line[at]}:
            turned = line[:at] + bytes([byte]) + line[at + 1 :]
            with contextlib.suppress(ValueError, TypeError):
                passed.append((at, byte, [_plain_line(each) for each in turned[:-1].split(b"\n")]))
    assert passed == []


def test_what_is_not_utf_8_is_named_with_its_line(tmp_path):
    accept(tmp_path, ONE)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"cell": "\xff\n')
    with pytest.raises(UsageError, match=rf"/{FILE}:2: .* is not an acceptance \('utf-8' codec .*\); remove the line$"):
        acceptances(tmp_path)


def test_nothing_is_written_behind_a_line_that_is_none(tmp_path):
    (tmp_path / FILE).write_text("so be it")
    with pytest.raises(UsageError, match=rf"/{FILE}:1: "):
        accept(tmp_path, ONE)
    assert (tmp_path / FILE).read_text() == "so be it"


def test_a_last_line_without_an_end_gets_one_before_the_next(tmp_path):
    accept(tmp_path, ONE)
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes().rstrip())
    accept(tmp_path, ONE)
    assert acceptances(tmp_path) == [ONE, ONE]
