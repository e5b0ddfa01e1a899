"""Percentiles of a probe's delay and its loss, of one way and of round trips."""

from array import array

import pytest

from pytest_ipperf.core.measurement.probe_delay import probe_facts
from pytest_ipperf.core.measurement.run_data import RunData


def data(columns, rows, lost=0):
    return RunData(
        attempted=len(rows) + lost,
        failed={"lost": lost},
        columns=columns,
        samples=array("d", [each for row in rows for each in row]),
        deadline_s=1.0,
    )


def test_round_trips_have_the_percentiles_of_their_times():
    found = probe_facts(data(("at_s", "rtt_s"), [(0.1 * at, 0.001 * at) for at in range(1, 101)]))
    assert found == {
        "probe_p50_s": pytest.approx(0.0505), "probe_p95_s": pytest.approx(0.095), "probe_p99_s": pytest.approx(0.099),
        "probe_loss": 0.0,
    }  # fmt: skip


def test_packets_have_those_of_first_copies_and_lost_ones_are_infinitely_late():
    columns = ("stream", "sequence", "sent_s", "received_s")
    rows: list[tuple[float, ...]] = [(0.0, at, 0.01 * at, 0.01 * at + 0.002) for at in range(97)]
    rows.append((0.0, 3.0, 0.03, 0.9))  # a second copy
    found = probe_facts(data(columns, rows, lost=3))
    assert found["probe_p95_s"] == pytest.approx(0.002)
    assert "probe_p99_s" not in found
    assert found["probe_loss"] == pytest.approx(3 / 101)


def test_without_a_packet_there_are_none():
    assert probe_facts(data(("at_s", "rtt_s"), [])) == {}
