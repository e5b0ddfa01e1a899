"""Migration: events of earlier versions are read as if the current version had written them."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.records.completeness import SessionState
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.store import SCHEMA, Archive, read_session, read_session_summary, records_in
from pytest_ipperf.store.log.migration import OLDEST, check_schema, migrated, tells_end
from tests.store.kept import events_of, keep, record, rewrite

NEW_IN_6: dict[str, Any] = {"workload_version": "", "fingerprint": "", "nodeid": "", "p_exceeds": None}


@pytest.fixture
def folder(tmp_path):
    """Write a session of schema 5: without later keys, and without an end."""
    folder = keep(tmp_path, 0, [record(1), record(2, 1.3)], status=None, schema=5)
    path = folder / "main.jsonl"
    events = events_of(path)
    for event in events:
        for name in {"session": ("saved",), "record": NEW_IN_6}.get(event["event"], ()):
            event.pop(name)
    rewrite(path, events, checksums=False)
    return folder


def test_records_of_schema_5_have_a_history_of_their_own(folder):
    wanted = [dataclasses.replace(each, **NEW_IN_6) for each in (record(1), record(2, 1.3))]
    assert records_in(folder) == wanted
    assert list(read_session_summary(folder).records) == wanted
    archive = Archive(folder.parents[1])
    (entry,) = archive.sessions()
    assert archive.notes == []
    assert (entry.verdicts, entry.saved, entry.tells_end) == ({"within": 1, "exceeds": 1}, "", False)
    assert [past.session for past in archive.history(HistoryKey(record(1).cell, "response_time", ""))] == [entry.name]
    assert archive.history(record(1).key) == []
    archive.close()
    assert read_session(folder).facts["saved"] == ""


@pytest.mark.parametrize("schema", [5, 6])
@pytest.mark.parametrize("verdict", ["measured", "inconclusive"])
def test_cells_of_a_design_that_never_judges_are_unjudged_and_lose_their_interval(tmp_path, schema, verdict):
    """Schema 6 kept `low` and `high` of two epochs, and a sentence with them."""
    sentence = "IPv6 is slower than IPv4 by 52.1 % [50.6, 53.6] (95 % interval); design 'smoke' never judges"
    more = {"design": "smoke", "judges": False, "verdict": verdict, "sentence": sentence}
    old = dataclasses.replace(record(1, 1.5, epochs=2), **more)
    assert old.low is not None
    folder = keep(tmp_path, 0, [old], schema=schema, status=10)
    wanted = dataclasses.replace(
        old, verdict="unjudged", reasons=("never_judges",), low=None, high=None, p_exceeds=None,
        sentence="unjudged: design smoke never judges",
    )  # fmt: skip
    assert records_in(folder) == [wanted]
    assert list(read_session_summary(folder).records) == [wanted]
    with contextlib.closing(Archive(tmp_path)) as archive:
        assert archive.sessions()[0].verdicts == {"unjudged": 1}


def test_an_invalid_cell_of_a_design_that_never_judges_stays_invalid():
    event = {"event": "record", "judges": False, "verdict": "invalid", "design": "smoke"}
    assert migrated(event, 6) is event


def test_what_today_writes_is_left_as_it_is():
    event = {"event": "record", "cell": "x"}
    assert migrated(event, SCHEMA) is event


@pytest.mark.parametrize("schema", range(OLDEST, SCHEMA + 1))
def test_every_schema_that_is_read_has_its_steps(schema):
    assert check_schema(schema, "x") == schema
    assert migrated({"event": "record"}, schema).keys() >= ({"nodeid"} if schema < 6 else set())
    assert tells_end(schema) == (schema >= 6)


@pytest.mark.parametrize("schema", [OLDEST - 1, SCHEMA + 1, None, "7", 5.5, True])
def test_another_schema_is_refused(schema):
    with pytest.raises(
        UsageError, match=rf"^session x has records of schema {schema}; this version reads schemas 5 to 7"
    ):
        check_schema(schema, "x")


def test_a_session_of_schema_5_that_stops_in_half_a_line_is_broken_off(folder):
    """The partial line may be the record of the red cell, and nothing else would show that it is missing."""
    path = folder / "main.jsonl"
    whole = path.read_bytes()
    for data, state in (
        (whole, SessionState.WHOLE),
        (whole[:-40], SessionState.BROKEN_OFF),
        (whole, SessionState.WHOLE),
    ):
        path.write_bytes(data)
        with contextlib.closing(Archive(folder.parents[1])) as archive:
            (entry,) = archive.sessions()
            assert (entry.completeness.state, read_session_summary(folder).completeness.state) == (state, state)


def test_half_a_line_behind_the_end_takes_nothing_from_a_session(tmp_path):
    folder = keep(tmp_path, 0, [record(1)])
    (folder / "gw0.jsonl").write_text('{"event": ')
    with contextlib.closing(Archive(tmp_path)) as archive:
        assert [entry.completeness.state for entry in archive.sessions()] == [SessionState.WHOLE]
    assert read_session_summary(folder).completeness.is_whole
