"""Paper 003's tables, plots and soak from records whose figures are known."""

import dataclasses
import math
import random

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.records.transfer_course import RUN_COLUMNS, TransferCourse
from pytest_ipperf.report.studies import file_transfer
from pytest_ipperf.report.studies.file_transfer.soak import drift_of

MIB = 2**20
MBIT = {"ipv4": 94.0, "ipv6": 92.5}


def course(mbit, *, minutes=30, drift=0.0, noise=0.0005, stalled=0, failures=0, leak=0.0, seed=1):
    """A course of runs of five minutes: `drift` is relative and an hour, `leak` in MiB an hour."""
    rng = random.Random(f"{seed}/{mbit}")
    rates = [1e6 * mbit * (1 + drift * at / 60 + rng.gauss(0, noise)) for at in range(minutes)]
    rows = []
    for number in range(minutes // 5):
        known = {
            "at_s": 300.0 * number, "goodput_bit_s": 1e6 * mbit, "interface_bit_s": 98.3e6 + 1e4 * number,
            "interface_max_bit_s": 98.4e6 + 1e4 * number, "transfers": 33.0, "failures": float(failures),
            "longest_gap_s": 3.5 if number < stalled else 0.01, "agent_bytes": (20 + leak * number / 12) * MIB,
            "agent_descriptors": 12.0, "server_bytes": 8.0 * MIB, "server_descriptors": 9.0,
            "server_agent_bytes": -1.0, "server_agent_descriptors": -1.0,
        }  # fmt: skip
        rows.append(tuple(known[name] for name in RUN_COLUMNS))
    return TransferCourse(
        seconds=tuple((float(at + 1), 1e6 * mbit, 98.3e6) for at in range(60)),
        minutes=tuple((60.0 * at + 30, rate, 98.3e6) for at, rate in enumerate(rates)),
        runs=tuple(rows),
    )


@pytest.fixture
def cells(made):
    """Return a function for the records of transfers of some sizes."""

    def records(*sizes, **change):
        found = []
        for size in sizes:
            record = made.record("tcp", "throughput", "ipv6", [92.5e6] * 6, [94e6] * 6)
            sides = {
                name: dataclasses.replace(side, course=course(MBIT[arm], **change))
                for name, arm, side in (("test", "ipv6", record.test), ("reference", "ipv4", record.reference))
            }
            cell = f"lab.100mbit-file_transfer-c1-{size}m-ipv6"
            found.append(
                dataclasses.replace(
                    record,
                    cell=cell,
                    protocol="file_transfer",
                    payload_bytes=size * MIB,
                    connections=1,
                    levels={},
                    levels_text="",
                    run_s=300.0,
                    design="paper",
                    **sides,
                )
            )
        return found

    return records


def lines(tables):
    return [" ".join(line.split()) for table in tables for line in table.lines()]


def test_table_2_has_the_interface_by_size_beside_the_studys_own(cells):
    tables, notes = file_transfer.tables(cells(100, 1000))
    found = lines(tables[:1])
    assert found[4:14] == [
        "Mbit/s at the interface 100m 1000m",
        "IPv4 98.33 98.33",
        "most in 5 min 98.35 98.35",
        "most in 1 s 98.45 98.45",
        "goodput 94.00 94.00",
        "study: average / maximum 96.0 / 97.4 98.2 / 98.4",
        "IPv6 98.33 98.33",
        "most in 5 min 98.35 98.35",
        "most in 1 s 98.45 98.45",
        "goodput 92.50 92.50",
    ]
    assert found[14] == "study: average / maximum 95.8 / 96.7 98.3 / 98.5"
    assert "98.44" in " ".join(notes)


def test_of_sizes_that_the_study_has_not_there_is_no_row_of_it(cells):
    tables, _ = file_transfer.tables(cells(7))
    assert not [line for line in lines(tables) if "study" in line]


def test_table_3_has_jitter_and_loss_by_rate_beside_the_studys_own(cells, made):
    udp = []
    for rate in (10e6, 50e6):
        for metric, values in (("jitter", [2e-5] * 6), ("loss", [0.001] * 6)):
            record = made.record("udp", metric, "ipv6", values, values)
            udp.append(dataclasses.replace(record, levels={"rate": rate}, cell=f"lab-udp-c1-1400-{rate}-{metric}-ipv6"))
    tables, _ = file_transfer.tables([*cells(100), *udp])
    assert lines(tables[1:2])[5:] == [
        "jitter in ms, loss in % 10mbit 50mbit",
        "IPv4 jitter 0.020 0.020",
        "loss 0.100 0.100",
        "study: jitter / loss 0.000 / 0.003 0.000 / 0.006",
        "IPv6 jitter 0.020 0.020",
        "loss 0.100 0.100",
        "study: jitter / loss 0.000 / 0.230 0.000 / 0.062",
    ]


def test_sessions_without_file_transfers_have_none_of_it(made):
    assert file_transfer.tables([made.record("udp", "jitter", "ipv6", [2e-5] * 6, [2e-5] * 6)]) == ([], [])
    assert file_transfer.plots([]) == []


def test_a_steady_soak_says_so_and_counts_nothing_else(cells):
    tables, notes = file_transfer.tables(cells(100))
    found = dict(row for row in tables[-1].rows)
    assert tables[-1].title == "Soak: transfers of 100m over 30 min 00 s"
    assert found["verdict on the drift"] == ["steady", "steady"]
    assert found["stalled runs"] == ["0", "0"]
    assert found["failed transfers"] == ["0", "0"]
    assert found["transfers"] == ["198", "198"]
    assert found["memory of the client's agent"] == ["20 to 20 MiB", "20 to 20 MiB"]
    assert found["descriptors of the server"] == ["9 to 9", "9 to 9"]
    assert "memory of the server's agent" not in found  # no host has reported it
    assert any("steady" in note for note in notes)


def test_a_drift_a_leak_stalls_and_failures_are_found(cells):
    tables, _ = file_transfer.tables(cells(100, minutes=120, drift=-0.02, leak=6.0, stalled=2, failures=1))
    found = dict(row for row in tables[-1].rows)
    assert found["verdict on the drift"] == ["drifts", "drifts"]
    assert all(text.startswith(("-2.0", "-1.9")) for text in found["drift an hour"])
    assert found["stalled runs"] == ["2", "2"]
    assert found["longest gap"] == ["3.50 s", "3.50 s"]
    assert found["failed transfers"] == ["24", "24"]
    assert found["memory of the client's agent"] == ["20 to 31.5 MiB (+6 an hour)"] * 2


def test_noise_that_hides_a_drift_is_open():
    found = drift_of(course(94.0, noise=0.2))
    assert found
    assert found.verdict == "open"


def test_a_small_true_drift_within_the_tolerance_is_steady():
    found = drift_of(course(94.0, drift=-0.002, noise=0.0001))
    assert found
    assert found.slope.excludes_zero
    assert found.verdict == "steady"


def test_less_than_ten_minutes_have_no_soak(cells):
    tables, notes = file_transfer.tables(cells(100, minutes=5))
    assert [table.title for table in tables] == ["Paper 003, Table 2: throughput by size of the file"]
    assert not any("Drift" in note for note in notes)


def test_plots_have_the_seconds_and_the_minutes_and_are_written(cells, tmp_path):
    records = cells(100)
    second, minute = file_transfer.plots(records)
    assert (second.name, minute.name) == ("figure-4-100m", "soak-100m")
    assert second.head == ("time in s", "IPv4 (Mbit/s)", "IPv6 (Mbit/s)")
    assert second.rows[0] == ("1", "94.00", "92.50")
    assert len(second.rows) == 60
    assert minute.head[0] == "time in min"
    assert len(minute.rows) == 30
    file_transfer.write(records, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "figure-4-100m.png", "figure-4-100m.svg", "soak-100m.png", "soak-100m.svg",
    ]  # fmt: skip
    assert (tmp_path / "soak-100m.png").read_bytes().startswith(b"\x89PNG")
    assert "Mbit/s" in (tmp_path / "figure-4-100m.svg").read_text()


def test_arms_of_different_lengths_have_all_their_figures(cells):
    (record,) = cells(100)
    short = dataclasses.replace(record.test, course=course(92.5, minutes=10), arm=Arm(6, "native"))
    (_, minute) = file_transfer.plots([dataclasses.replace(record, test=short)])
    assert len(minute.rows) == 30
    assert minute.rows[-1][2] == ""
    assert math.isclose(float(minute.rows[-1][1]), 94, rel_tol=0.01)
