"""A session summary: everything in a session's folder, read back from it alone."""

from __future__ import annotations

import contextlib
import itertools
import math
from array import array
from collections import Counter

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.nightly.session_summary import UNEXPLAINED, WHOLE_SESSION, HostSummary, Trouble
from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.core.records.completeness import SessionState
from pytest_ipperf.store import Archive, EventLog, read_session, read_session_summary, session_reader
from pytest_ipperf.store.index import update
from pytest_ipperf.store.log import events
from tests.store.kept import BEGAN, HOST, SUITE, facts, keep, name_of, record

COLUMNS = ["start", "total"]


def write_samples(folder, workload="lab-http-c1-10k", *, arm="ipv6", cut=False):
    """Write a warm-up and two runs of an arm, one of which had a failed connection."""
    event_log = EventLog(folder, "gw0")
    event_log.append("session", facts(0))
    event_log.append("workload", {"workload": workload, "seed": 7, "order": []})
    for block, failed in ((-1, {}), (0, {}), (1, {"deadline": 1})):
        offset = event_log.append_samples(array("d", [0.0, 0.1 + block, 0.0, 0.2 + block]).tobytes())
        run = {"columns": COLUMNS, "rows": 2, "offset": offset, "arm": arm, "warmup": block < 0, "failed": failed}
        event_log.append("run", {"workload": workload, "block": block, **run})
    event_log.append("complete", {"workload": workload})
    event_log.close()
    if cut:
        path = folder / "gw0.f64"
        path.write_bytes(path.read_bytes()[:-8])


def test_a_story_has_all_that_was_kept(tmp_path):
    cells = [record(1), record(2, 1.3)]
    folder = keep(tmp_path, 0, cells, saved="main", status=1, troubles={"invalid": f"{SUITE}::x", "inconclusive": "y"})
    summary = read_session_summary(folder)
    assert (summary.name, summary.folder, summary.began_at, summary.seconds) == (name_of(0), folder, BEGAN, 61.5)
    assert (summary.status, summary.saved, summary.question["seed"], summary.records) == (1, "main", 7, tuple(cells))
    assert summary.troubles == (
        Trouble(nodeid=f"{SUITE}::x", kind="invalid", sentence="invalid indeed"),
        Trouble(nodeid="y", kind="inconclusive", sentence="inconclusive indeed"),
    )
    seen = {**HOST, "server": "apache 2.4"}
    assert summary.hosts == tuple(HostSummary(testbed="lab", role=role, facts=seen) for role in ("client", "server"))
    assert (summary.night, dict(summary.histories), dict(summary.samples)) == (None, {}, {})


@pytest.mark.parametrize(
    ("status", "ratio", "kinds", "told"),
    [
        (1, 1.0, (), True),
        (1, 1.0, ("inconclusive",), True),  # --ipperf-inconclusive=fail
        (1, 1.3, (), False),
        (1, 1.0, ("failed",), False),
        (1, 1.0, ("infrastructure", "inconclusive"), False),
        (0, 1.0, ("inconclusive",), False),
        (2, 1.0, (), False),
        (None, 1.0, (), False),
    ],
)
def test_a_status_that_no_result_explains_is_trouble_of_the_session(tmp_path, status, ratio, kinds, told):
    folder = keep(tmp_path, 0, [record(1, ratio)], status=status, troubles={kind: f"t.py::{kind}" for kind in kinds})
    found = [each for each in read_session_summary(folder).troubles if each.nodeid == WHOLE_SESSION]
    assert found == ([Trouble(nodeid="pytest", kind="failed", sentence=UNEXPLAINED)] if told else [])


def test_hosts_have_the_names_and_addresses_of_the_inventory(tmp_path):
    folder = keep(tmp_path, 0, [record(1)], hosts={"client": HOST, "server": HOST, "client2": HOST})
    event_log = EventLog(folder, "main")
    alpha, beta = ({"name": name, "ipv4": "", "ipv6": f"2001:db8::{name}"} for name in ("a", "b"))
    testbed = {"name": "lab", "client": alpha, "server": {**beta, "ipv4": "192.0.2.2"}, "router": None}
    event_log.append("complete", {"workload": "lab-http-c1-10k", "testbed": {**testbed, "more_clients": [beta]}})
    event_log.close()
    assert [(host.role, host.name, host.addresses) for host in read_session_summary(folder).hosts] == [
        ("client", "a", ("2001:db8::a",)),
        ("server", "b", ("192.0.2.2", "2001:db8::b")),
        ("client2", "b", ("2001:db8::b",)),
    ]


def test_samples_are_those_of_runs_that_count_and_failures_are_infinite(tmp_path):
    folder = keep(tmp_path, 0, [record(1)])
    write_samples(folder)
    samples = read_session_summary(folder).samples
    assert list(samples) == [("lab-http-c1-10k", Arm(6, "native"))]
    assert list(samples["lab-http-c1-10k", Arm(6, "native")]) == [0.1, 0.2, 1.1, 1.2, math.inf]


def test_runs_have_their_times_and_those_of_a_workload_without_an_end_are_provisional(tmp_path):
    folder = keep(tmp_path, 0, [record(1)])
    event_log = EventLog(folder, "gw0")
    event_log.append("session", facts(0))
    for workload in ("lab-http-c1-10k", "lab-http-c2-10k"):
        event_log.append("workload", {"workload": workload, "seed": 7, "order": []})
        for block, value in ((-1, 9.0), (0, 0.1), (1, None), (2, 0.3)):
            offset = event_log.append_samples(b"")
            run = {"columns": COLUMNS, "rows": 0, "offset": offset, "arm": "ipv6", "warmup": block < 0, "failed": {}}
            run |= {"began_at": BEGAN + 10 + block, "values": {"response_time": value}}
            event_log.append("run", {"workload": workload, "block": block, **run})
        if workload == "lab-http-c1-10k":
            event_log.append("complete", {"workload": workload})
    event_log.close()
    summary = read_session_summary(folder)
    arm = Arm(6, "native")
    assert summary.run_times["lab-http-c1-10k", arm] == [BEGAN + 10, BEGAN + 12]
    assert summary.provisional == {("lab-http-c2-10k", arm, "response_time"): [0.1, 0.3]}


def test_samples_of_an_arm_are_found_however_its_text_was_written(tmp_path):
    folder = keep(tmp_path, 0, [record(1)])
    write_samples(folder, arm="ipv6-native")
    assert list(read_session_summary(folder).samples["lab-http-c1-10k", Arm(6, "native")])[:2] == [0.1, 0.2]


@pytest.mark.parametrize("event", ["run", "floor"])
def test_an_arm_that_is_none_is_damage(tmp_path, event):
    folder = keep(tmp_path, 0, [record(1)])
    event_log = EventLog(folder, "gw0")
    event_log.append("session", facts(0))
    run = {"columns": COLUMNS, "rows": 0, "offset": 0, "warmup": False, "failed": {}}
    event_log.append(event, {"workload": "lab-http-c1-10k", "arm": "ipv5", "value": None, **run})
    event_log.close()
    with pytest.raises(DamageError, match=rf"gw0.jsonl:2 is damaged \(of its event '{event}' 'arm' cannot be 'ipv5'\)"):
        read_session_summary(folder)


def test_samples_that_are_not_whole_are_none(tmp_path):
    folder = keep(tmp_path, 0, [record(1)])
    write_samples(folder, cut=True)
    assert dict(read_session_summary(folder).samples) == {}


def test_samples_that_were_taken_over_lie_where_they_were_measured(tmp_path):
    earlier = keep(tmp_path, 0, [])
    write_samples(earlier)
    folder = tmp_path / "runs" / name_of(1)
    event_log = EventLog(folder, "main")
    event_log.append("session", facts(1))
    event_log.append("taken", {"workload": "lab-http-c1-10k", "session": earlier.name, "folder": str(earlier)})
    event_log.append("note", {"text": "so"})
    event_log.append("note", {"text": "so"})
    event_log.close()
    summary = read_session_summary(folder)
    assert len(summary.samples["lab-http-c1-10k", Arm(6, "native")]) == 5
    assert (summary.notes, summary.seconds, summary.status) == (("so",), None, None)
    (earlier / "gw0.jsonl").unlink()
    (earlier / "main.jsonl").unlink()
    assert dict(read_session_summary(folder).samples) == {}


def test_each_journal_is_read_once_and_of_a_run_only_what_tells_its_samples(tmp_path, monkeypatch):
    """A night's event logs have tens of thousands of runs; their facts and proofs would fill the memory."""
    earlier = keep(tmp_path, 0, [record(1)])
    for number in range(3):
        write_samples(earlier, f"lab-http-c{number}-10k")
    folder = tmp_path / "runs" / name_of(1)
    event_log = EventLog(folder, "main")
    event_log.append("session", facts(1))
    for number in range(3):
        taken = {"workload": f"lab-http-c{number}-10k", "session": earlier.name, "folder": str(earlier)}
        event_log.append("taken", taken)
    event_log.close()
    read: Counter[bytes] = Counter()
    read_line = events._event

    def counted(line, *where):
        read[line] += 1
        return read_line(line, *where)

    monkeypatch.setattr(events, "_event", counted)
    summary = read_session_summary(folder)
    assert len(summary.samples) == 3
    written = [
        path.read_bytes().splitlines(keepends=True) for each in (earlier, folder) for path in each.glob("*.jsonl")
    ]
    assert sorted(read.elements()) == sorted(itertools.chain(*written))
    (run, *_) = read_session(earlier, short=True).workloads["lab-http-c0-10k"].runs
    assert set(run) == {"arm", "warmup", "columns", "rows", "offset", "failed"}
    assert "block" in read_session(earlier).workloads["lab-http-c0-10k"].runs[0]


def test_a_record_that_lacks_something_is_told(tmp_path):
    folder = keep(tmp_path, 0, [])
    event_log = EventLog(folder, "main")
    event_log.append("record", {"cell": "lab-x", "metric": "loss", "test": {}, "reference": {}})
    event_log.close()
    with pytest.raises(
        DamageError, match=rf"^session {name_of(0)}: main.jsonl:5 is damaged \(of a record 'alpha' is missing\)"
    ):
        read_session_summary(folder)


def test_a_folder_without_a_session_is_told(tmp_path):
    with pytest.raises(UsageError, match=rf"^session {tmp_path}/x is not there$"):
        read_session_summary(tmp_path / "x")
    with pytest.raises(
        UsageError, match=rf"^session {tmp_path} has no records: no event log in it begins with an event"
    ):
        read_session_summary(tmp_path)


@pytest.fixture
def ending(tmp_path, monkeypatch):
    """Make a session that ends while its event log is being read, after the lines already read."""
    folder = tmp_path / "runs" / name_of(0)
    event_log = EventLog(folder, "main")
    event_log.append("session", facts(0))
    event_log.append("plan", {"items": {record(1).nodeid: record(1).cell, "b": "lab-b"}})
    read, ends = events.read_events, [{"status": 0, "seconds": 1.0, "missing": []}]

    def read_events(path, place=None):
        yield from read(path, place)
        if ends:
            event_log.append("end", ends.pop())
            event_log.close()

    monkeypatch.setattr(session_reader, "read_events", read_events)
    monkeypatch.setattr(update, "read_events", read_events)
    return folder


def test_a_session_that_ends_while_it_is_read_was_running(ending):
    assert read_session_summary(ending).completeness.state is SessionState.RUNNING
    assert read_session_summary(ending).completeness.state is SessionState.WHOLE


def test_a_session_that_ends_while_the_index_reads_it_was_running(ending):
    states = []
    for _ in range(2):
        with contextlib.closing(Archive(ending.parents[1])) as archive:
            states += [entry.completeness.state for entry in archive.sessions()]
    assert states == [SessionState.RUNNING, SessionState.WHOLE]
