"""The runs of all nights that lost a connection: counted by the store, told by the night, and deciding nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt

import pytest

from pytest_ipperf.cli.night.decide import decide_night
from pytest_ipperf.cli.night.write import write_verdict
from pytest_ipperf.core.nightly.gate import decide
from pytest_ipperf.core.nightly.outages import RunCount
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.terminal.night import lines
from pytest_ipperf.store import Archive, EventLog
from tests.store.kept import BEGAN, facts, name_of, record

RUNS = 5


def night(root, number, lost=(), *, more=0, saved="night", decided=True):
    """Store a session of a cell with five runs of each arm and a warm-up; the runs `lost` of IPv6 lose a connection.

    Decide it as a night, and return its report; the last `more` runs are logged after the archive was open once.
    """
    folder, name = root / "runs" / name_of(number), name_of(number)
    cell = record(1, seed=number)
    workload = cell.workload
    log = EventLog(folder, "main")
    log.append("session", facts(number, saved=saved))
    runs = [(arm, place, place == 0) for place in range(RUNS + 1) for arm in ("ipv4", "ipv6")]
    for at, (arm, place, warmup) in enumerate(runs):
        if at == len(runs) - more:
            Archive(root).close()
        failed = {"talk reset": 1} if warmup or (arm == "ipv6" and place in lost) else {"talk reset": 0}
        place_of = {"workload": workload, "arm": arm, "warmup": warmup, "columns": [], "rows": 0, "offset": 0}
        log.append("run", {**place_of, "failed": failed})
    log.append("record", cell.to_plain())
    log.append("end", {"status": 0, "seconds": 60.0})
    log.close()
    if not decided:
        return None
    with contextlib.closing(Archive(root)) as archive:
        found = decide_night(archive, folder, None, saved=saved, baseline=saved)
    write_verdict(root / "nights" / name, found, {})
    return found.report


def test_runs_are_pooled_over_the_nights_and_change_no_decision(tmp_path):
    first = night(tmp_path, 0)
    assert first.notes == (
        "0 of 5 runs over 1 night lost a connection: an outage that hits fewer than 45 % of runs can have been missed",
    )
    night(tmp_path, 1, saved="other")
    night(tmp_path, 2, decided=False)  # was broken off before its decision
    second = night(tmp_path, 3, more=4)
    assert second.notes == (
        (
            "0 of 10 runs over 2 nights lost a connection: "
            "an outage that hits fewer than 26 % of runs can have been missed"
        ),
    )
    assert second.notes[0] in lines(second)
    third = night(tmp_path, 4, lost=(2, 4))
    cell = record(1).cell
    assert third.notes == (f"2 of 15 runs over 3 nights lost a connection, most in {cell} (2 of 15)",)
    alone = decide(
        screen=[record(1, seed=4)], fresh=[], expected=[record(1).key], histories={}, accepted=(), troubles={},
        today=dt.datetime.fromtimestamp(BEGAN, dt.UTC).date(), metric_of=lambda name: METRICS[name].metric,
    )  # fmt: skip
    assert (third.gate_status, third.cells[0].decision) == (alone.gate_status, alone.cells[0].decision)


def test_a_rebuilt_index_counts_the_same(tmp_path):
    for number in range(3):
        night(tmp_path, number, lost=(1,) if number == 1 else (), more=3)
    counts = {}
    for _ in range(2):
        with contextlib.closing(Archive(tmp_path)) as archive:
            counts = archive.run_counts(name_of(2), saved="night")
            assert counts[record(1).cell] == RunCount(runs=15, hit=1, nights=3)
            assert archive.run_counts(name_of(2), saved="night", most=1)[record(1).cell].runs == 10
        (tmp_path / "index.sqlite").unlink()


@pytest.mark.parametrize("change", [{"metric": "loss", "protocol": "udp"}, {"twin": True}])
def test_cells_without_connections_and_twins_are_not_counted(tmp_path, change):
    folder = tmp_path / "runs" / name_of(0)
    log = EventLog(folder, "main")
    log.append("session", facts(0, saved="night"))
    cell = dataclasses.replace(record(1), **{name: each for name, each in change.items() if name != "metric"})
    run = {"workload": cell.workload, "arm": "ipv6", "warmup": False, "columns": [], "rows": 0, "offset": 0}
    log.append("run", {**run, "failed": {}})
    log.append("record", cell.to_plain())
    log.append("end", {"status": 0, "seconds": 60.0})
    log.close()
    with contextlib.closing(Archive(tmp_path)) as archive:
        assert decide_night(archive, folder, None, saved="night", baseline="night").report.notes == ()
