"""Many nights of many cells through the store: the records give the same decisions as the measurements.

The figures of the nights are random; journals, index, verdicts and the gate are real.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import math
import random
import statistics

from pytest_ipperf.cli.night.decide import decide_night
from pytest_ipperf.cli.night.write import write_verdict
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.nightly.gate import MIN_NIGHTS, decide, flagged
from pytest_ipperf.core.nightly.report import RED, GateDecision, GateStatus
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import t_interval
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.store import SCHEMA, Archive, EventLog

CELLS, NIGHTS = 200, 24
EPOCHS = 10
WORSE_FROM = 22
MARGIN = 0.1
SIDE = ArmSummary(arm=Arm(6, "native"), values=(0.01,), attempted=1, completed=1, failed={}, phases={})
BEGAN_AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()


def metric_of(name):
    return METRICS[name].metric


def drawn(draw, number, change):
    """Return the measurement of a cell with that true change, in ten epochs."""
    epochs = [math.log1p(change) + draw.gauss(0, 0.015) for _ in range(EPOCHS)]
    found, sd = t_interval(epochs, 0.95), statistics.stdev(epochs)
    bounds = t_interval(epochs, 0.9)
    allowed = math.log1p(MARGIN)
    verdict = "within" if bounds.high <= allowed else "exceeds" if bounds.low > allowed else "inconclusive"
    low, estimate, high = (100 * math.expm1(each) for each in (found.low, found.estimate, found.high))
    cell = f"lab-smtp-c{number}-1k-ipv6"
    return Record(
        cell=cell, testbed="lab", protocol="smtp", connections=number + 1, payload_bytes=1024, ipver=6,
        transport="native", twin=False, client="lean", server="postfix", metric="response_time", design="nightly",
        judges=True, seed=1, look=1, looks=1, epochs=EPOCHS, blocks=1, deadline_s=10.0, test=SIDE, reference=SIDE,
        estimate=estimate, low=low, high=high, confidence=0.95, sd_epoch=sd, sd_block=None, margin="10%",
        margin_fraction=MARGIN, alpha=0.05, verdict=verdict, reasons=(), sentence="", workload_version="1",
        fingerprint="f",
        nodeid=f"suite.py::test[{cell}]",
    )  # fmt: skip


def keep(root, name, records, began_at, saved):
    """Write a session as the plugin does."""
    journal = EventLog(root / "runs" / name, "main")
    facts = {"schema": SCHEMA, "seed": 1, "design": {"name": "nightly"}, "saved": saved, "pytest_ipperf": "0"}
    journal.append("session", {**facts, "arguments": [], "at": began_at})
    for record in records:
        journal.append("record", record.to_plain())
    journal.append("end", {"status": 0, "seconds": 60.0})
    journal.close()
    return journal.folder


def test_twenty_nights_and_more_through_the_store_are_decided_as_without_it(tmp_path):
    """Cell 0 is beyond its margin in one night, cell 1 becomes worse within it, and cell 2 is left out at the end."""
    draw, statuses = random.Random(1), []
    histories: dict[HistoryKey, list[HistoryEntry]] = {}
    expected: list[HistoryKey] = []
    for night in range(NIGHTS):
        worse = night >= WORSE_FROM
        changes = {number: 0.0 for number in range(CELLS) if not (number == 2 and night == NIGHTS - 1)}
        changes |= {0: 0.2 if night == 3 else 0.0, 1: 0.06 if worse else 0.0}
        screen = [drawn(draw, number, change) for number, change in changes.items()]
        fresh = [drawn(draw, number, changes[number]) for number in (each.connections - 1 for each in flagged(screen))]
        began_at = BEGAN_AT + 86400 * night
        expectation = decide(
            screen=screen, fresh=fresh, expected=expected, histories=histories, accepted=(), troubles={},
            today=dt.datetime.fromtimestamp(began_at, dt.UTC).date(), metric_of=metric_of,
        )  # fmt: skip

        name = f"2026{night:04}T000000Z-aaaaaa"
        screening = keep(tmp_path, name, screen, began_at, "night")
        again = keep(tmp_path, name.replace("aaaaaa", "bbbbbb"), fresh, began_at + 60, "") if fresh else None
        with contextlib.closing(Archive(tmp_path)) as archive:
            found = decide_night(archive, screening, again, saved="night", baseline="night")
        write_verdict(tmp_path / "nights" / name, found, {})
        assert found.report == expectation

        red = {cell.key for cell in expectation.cells if cell.decision in RED}
        for record in screen:
            past = dataclasses.replace(record.history_entry(name, began_at), sound=record.key not in red)
            histories.setdefault(record.key, []).append(past)
        expected = [cell.key for cell in expectation.cells]
        statuses.append(expectation.gate_status)
        if night == 3:
            assert HistoryKey("lab-smtp-c0-1k-ipv6", "response_time", "1") in red
        if night == WORSE_FROM:
            assert {cell.key.cell: cell.nights for cell in expectation.cells}["lab-smtp-c1-1k-ipv6"] >= MIN_NIGHTS
            assert [cell.key.cell for cell in expectation.with_decision(GateDecision.WORSE)] == ["lab-smtp-c1-1k-ipv6"]
    missing = found.report.with_decision(GateDecision.MISSING)
    assert [cell.key.cell for cell in missing] == ["lab-smtp-c2-1k-ipv6"]
    calm = [gate_status for night, gate_status in enumerate(statuses) if night != 3 and night < WORSE_FROM]
    assert calm == [GateStatus.GREEN] * len(calm)
