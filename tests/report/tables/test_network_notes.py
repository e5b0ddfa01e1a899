"""The tables' notes on the network and the hosts."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.response_time.table import conditions
from pytest_ipperf.report.tables.network_notes import client_lines, run_notes
from pytest_ipperf.report.workload_kinds import tables

SIDE = ArmSummary(arm=Arm(4, "native"), values=(0.01,), attempted=1, completed=1, failed={}, phases={})


def record(**changed):
    shown = Record(
        cell="crowd-smtp-c10-1k-ipv6", testbed="crowd", protocol="smtp", connections=10, payload_bytes=1024, ipver=6,
        transport="native", twin=False, client="lean", server="postfix 3.7.11", metric="response_time",
        design="quick", judges=True, seed=1, look=1, looks=1, epochs=6, blocks=2, deadline_s=10.0,
        test=dataclasses.replace(SIDE, arm=Arm(6, "native")), reference=SIDE,
        estimate=1.7, low=-1.25, high=4.6, confidence=0.95, sd_epoch=0.02, sd_block=0.03, margin="10 %",
        margin_fraction=0.1, alpha=0.05, verdict="within", reasons=(), sentence="...",
    )  # fmt: skip
    return dataclasses.replace(shown, **changed)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([(0.00008, 0.00005)], ", common start within 0.08 ms +- 0.05 ms, in half of the runs 0.07 ms"),
        (
            [(0.0002, 0.00005), (0.0125, 0.0003), (None, None)],
            ", common start within 12.5 ms +- 0.30 ms, in half of the runs 0.07 ms",
        ),
        ([(None, None)], ", one of which had connections"),
    ],
)
def test_several_clients_are_named_with_the_start_of_the_worst_run(starts, expected):
    found = [
        record(
            cell=f"crowd-smtp-c{number}-1k-ipv6", connections=number, client_hosts=("alpha", "gamma"),
            start_skew_s=skew_s, start_skew_error_s=error_s, start_skew_median_s=7e-5,
        )
        for number, (skew_s, error_s) in enumerate(starts, start=1)
    ]  # fmt: skip
    assert client_lines(found) == [f"2 clients (alpha, gamma){expected}"]
    assert conditions(found)[2:] == client_lines(found) == tables(found)[2:3]
    again = [Record.from_json(each.to_json()) for each in found]
    assert again == found


def test_of_one_client_nothing_is_said():
    assert client_lines([record()]) == []
    assert run_notes([record()]) == []


def test_a_late_host_is_told_once():
    notes = [f"host gamma began a burst {late} ms after the first host" for late in (34, 21)]
    sides = [dataclasses.replace(SIDE, notes=(note,)) for note in notes]
    found = run_notes([record(test=sides[0], reference=sides[1]), record(test=sides[1])])
    assert found == ["Host gamma began a burst 34 ms after the first host."]
