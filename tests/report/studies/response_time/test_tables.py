"""The study's tables: its figures agree with its formula, and ours are beside them."""

import csv
import dataclasses
import math
from datetime import UTC, datetime

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.response_time import study_notes, study_tables
from pytest_ipperf.report.studies.response_time.formulas import study_increase, study_mean_interval
from pytest_ipperf.report.studies.response_time.printed import DOUBTS, INCREASES, MEANS, REFERENCE, TABLES
from pytest_ipperf.report.table_files import write_tables

MADE_AT = datetime(2026, 11, 22, 0, 30, tzinfo=UTC)


def ten_values(printed):
    """Return any 10 values, in seconds, with this mean and the spread given by the printed interval of 1.96 errors."""
    spread = (printed.high_ms - printed.low_ms) / 2 / 1.96 * math.sqrt(10)
    return tuple((printed.mean_ms + sign * spread * math.sqrt(0.9)) / 1000 for sign in (-1, 1) for _ in range(5))


def side(arm, values, *, completed_values=None, failed=None, attempted=100):
    lost = sum((failed or {}).values())
    return ArmSummary(
        arm=Arm.parse(str(arm)), values=tuple(values), attempted=attempted,
        completed=attempted - lost, failed=failed or {}, phases={},
        completed_values=tuple(values if completed_values is None else completed_values),
    )  # fmt: skip


def record(protocol, connections, test, reference, **change):
    shown = Record(
        cell=f"lab-{protocol}-c{connections}-1k-{test.arm}", testbed="lab", protocol=protocol, connections=connections,
        payload_bytes=1024, ipver=6, transport=test.arm.transport, twin=False, client="lean",
        server="real 1.0",
        metric="response_time", design="paper", judges=False, seed=1, look=1, looks=1, epochs=1, blocks=10,
        deadline_s=10.0, test=test, reference=reference, estimate=None, low=None, high=None, confidence=0.95,
        sd_epoch=None, sd_block=None, margin="10 %", margin_fraction=0.1, alpha=0.05, verdict="inconclusive",
        reasons=("never_judges",), sentence="...",
    )  # fmt: skip
    return dataclasses.replace(shown, **change)


def as_the_study(places=tuple(INCREASES)):
    """Return records of runs with the study's own figures."""
    return [
        record(
            protocol,
            count,
            side(arm, ten_values(MEANS[protocol, arm, count])),
            side(REFERENCE, ten_values(MEANS[protocol, REFERENCE, count])),
        )
        for protocol, name, count in places
        for arm in [Arm.parse(str(name))]
    ]


def table(name, records):
    (found,) = (each for each in study_tables(records) if each.name == name)
    return found


def rows_of(found, name):
    return [cells for title, cells in found.rows if title.strip().startswith(name)]


# --- the printed figures ----------------------------------------------------------------------------------------------


def doubtful(table_name, arm, count):
    return {what for name, an_arm, level, what in DOUBTS if (name, an_arm, level) == (table_name, arm, count)}


@pytest.mark.parametrize(("protocol", "arm", "count"), INCREASES, ids=str)
def test_what_is_printed_agrees_with_itself_by_the_studys_formula(protocol, arm, count):
    """This finds digits copied wrongly, and shows which figures are in doubt. Means are printed to 0.05 ms."""
    reference, test = MEANS[protocol, REFERENCE, count], MEANS[protocol, arm, count]
    averages, increases = (doubtful(name, arm, count) for name in TABLES[protocol])
    if "interval" in averages:
        return
    found = study_increase(ten_values(reference), ten_values(test))
    printed = INCREASES[protocol, arm, count]
    rounded = 0.11 + (0.2 if "mean" in averages else 0)
    if "increase" not in increases:
        assert 1000 * found.increase.estimate == pytest.approx(printed.increase_ms, abs=rounded)
    share = 100 * rounded / reference.mean_ms
    if "percentage" not in increases:
        assert found.percent == pytest.approx(printed.percent, abs=0.06 + share)
    assert found.confidence_level == pytest.approx(printed.level, abs=4 if count == 1 else 2)
    if "interval" not in doubtful(f"6-1 {protocol}", arm, count):
        half = (printed.high_ms - printed.low_ms) / 2
        assert 500 * (found.increase.high - found.increase.low) == pytest.approx(half, rel=0.03, abs=0.1)
        assert (printed.high_ms + printed.low_ms) / 2 == pytest.approx(1000 * found.increase.estimate, abs=rounded)


@pytest.mark.parametrize(("protocol", "arm", "count"), MEANS, ids=str)
def test_printed_means_lie_in_the_middle_of_their_intervals(protocol, arm, count):
    printed = MEANS[protocol, arm, count]
    middle = (printed.low_ms + printed.high_ms) / 2
    if "interval" in doubtful(TABLES[protocol][0], arm, count):
        assert abs(middle - printed.mean_ms) > 1000
    else:
        assert middle == pytest.approx(printed.mean_ms, abs=0.21)


def test_every_doubt_is_of_a_figure_that_a_table_shows():
    marked = sum(
        cell.endswith("*") for each in study_tables(as_the_study()) for _, cells in each.rows for cell in cells
    )
    assert marked == len(DOUBTS) == sum(len(each.notes) for each in study_tables(as_the_study()))


# --- the tables -------------------------------------------------------------------------------------------------------


def test_the_study_in_its_own_tables_stands_beside_itself():
    found = table("3-3", as_the_study([("ftp", "ipv6", 10), ("ftp", "ipv6", 100)]))
    first, second = rows_of(found, "mean")
    assert (first, second) == (["1405", "9469"], ["1137", "8230"])
    assert rows_of(found, "study's formula: interval (91.8 %)")[1] == ["982 - 1292", "7234 - 9225"]
    assert rows_of(found, "study's figure: interval")[1] == ["982.5 - 1291.7", "7234.2 - 9225.4"]
    assert "Of the study's table not measured: arm IPv6 tunnel; 1 connections." in found.lines()


def test_increases_and_differences_stand_beside_those_that_are_printed():
    records = as_the_study([("ftp", "ipv6", 10), ("ftp", "ipv6-tunnel", 10)])
    found = table("3-4", records)
    assert rows_of(found, "increase") == [["-267.7"], ["-168.2"]]
    assert rows_of(found, "study's figure: increase") == [["-267.7"], ["-168.2"]]
    assert rows_of(found, "study's formula: confidence") == [["98 %"], ["93 %"]]
    assert rows_of(found, "study's figure: confidence") == [["98 %"], ["93 %"]]
    differences = table("6-1", records)
    assert rows_of(differences, "study's figure: interval") == [["-459.08 to -76.30"], ["-356.69 to +20.37"]]
    (ours, _) = rows_of(differences, "study's formula: interval (90 %)")
    assert ours[0].startswith("-45")


def test_means_of_completed_connections_alone_have_rows_of_their_own_where_some_failed():
    """A failed connection of 100 that waited 10 s, in one of ten runs, adds 10 ms to the mean."""
    fine = [0.020, 0.021] * 5
    lossy = side("ipv4", [*fine[:9], 0.021 * 0.99 + 0.1], completed_values=fine, failed={"connect refused": 1})
    found = table("3-1", [record("http", 10, side("ipv6", [0.022, 0.024] * 5), lossy)])
    assert rows_of(found, "mean") == [["30.5"], ["23.0"]]
    assert rows_of(found, "study's formula: mean") == [["20.5"], ["23.0"]]
    assert rows_of(found, "completed") == [["99 of 100"], ["100 of 100"]]
    assert rows_of(found, "failed: connect refused") == [["1"]]
    increases = table("3-2", [record("http", 10, side("ipv6", [0.022, 0.024] * 5), lossy)])
    assert rows_of(increases, "increase") == [["-7.48"]]
    assert rows_of(increases, "study's formula: increase") == [["+2.50"]]
    assert rows_of(increases, "failed: connect refused") == [["1"]]


def test_what_the_formulas_cannot_be_asked_is_left_open():
    """For runs without spread, one without completed connections, and levels and arms that the study does not have."""
    still, dead = (
        side("ipv4", [0.02] * 10),
        side("ipv6", [10.0] * 10, completed_values=(), failed={"dns deadline": 100}),
    )
    records = [record("http", 5000, side("ipv6-isatap", [0.02] * 10), still), record("http", 10, dead, still)]
    found = table("3-1", records)
    assert rows_of(found, "study's formula: interval")[1:] == [["-", "-"], ["-", "20.0 - 20.0"]]
    assert rows_of(found, "study's figure: mean") == [["10.9", "-"], ["10.3", "-"]]
    assert rows_of(table("3-2", records), "study's formula: confidence") == [["-", "-"], ["-", "-"]]
    assert all(each.lines() for each in study_tables(records))


def test_another_reference_has_nothing_of_the_study_to_be_compared_with():
    records = [record("http", 10, side("ipv6-tunnel", [0.02, 0.03] * 5), side("ipv6", [0.02, 0.021] * 5))]
    assert rows_of(table("3-2", records), "study's figure") == []
    assert rows_of(table("6-1", records), "study's figure") == []
    assert len(rows_of(table("3-1", records), "study's figure: mean")) == 2


def test_a_look_up_that_is_the_transaction_has_no_phases_before_it():
    phases = {"dns": 0.0, "connect": 0.0, "first_byte": 0.0003, "total": 0.0004}
    sides = [dataclasses.replace(side(arm, [0.001, 0.002]), phases=phases) for arm in ("ipv6", "ipv4")]
    found = table("dns-averages", [record("dns", 10, *sides)])
    assert rows_of(found, "first byte") == [["0.30"], ["0.30"]]
    assert rows_of(found, "dns / ") == []


def test_what_was_reused_is_named_for_each_protocol():
    smtp, ftp = as_the_study([("smtp", "ipv6", 1), ("ftp", "ipv6", 1)])
    records = [dataclasses.replace(smtp, taken_from="20261121T1"), ftp]
    line = "reused from session 20261121T1: 1 connections"
    assert line in table("3-5", records).head
    assert not [each for each in table("3-3", records).head if "reused" in each]
    assert table("6-1", records).head[-1] == f"SMTP {line}"


def test_arrivals_at_a_rate_are_told_in_place_of_all_at_once():
    shown = dataclasses.replace(as_the_study([("smtp", "ipv6", 1)])[0], rate_per_s=200.0, workers=2)
    for each in study_tables([shown]):
        assert each.head[0].endswith(", by connections")
        assert "client lean by 2 workers, 200 arrivals a second" in " ".join(each.head)


def test_a_protocol_that_the_study_has_not_comes_last_under_a_name_of_its_own():
    records = [
        record(protocol, 10, side("ipv6", [0.02, 0.03] * 5), side("ipv4", [0.02, 0.021] * 5))
        for protocol in ("dns", "imap", "http")
    ]
    names = [each.name for each in study_tables(records)]
    assert names == ["3-1", "3-2", "3-7", "3-8", "dns-averages", "dns-increases", "6-1"]
    assert "This table is not in the study." in table("dns-averages", records).lines()
    (row,) = [title for title, _ in table("6-1", records).rows if title.startswith("DNS: IPv6")]
    assert row == "DNS: IPv6 - IPv4"


def test_six_columns_fit_every_terminal_in_parts():
    levels = (1, 10, 100, 500, 1000)
    records = as_the_study([("http", arm, count) for arm in ("ipv6", "ipv6-tunnel") for count in levels])
    records += [record("http", 5000, side("ipv6", [4.0, 4.2] * 5), side("ipv4", [4.0, 4.1] * 5))]
    for each in study_tables(records):
        for width in range(80, 121):
            lines = each.lines(width)
            body = lines[len(each.head) + 1 : len(lines) - len(each.notes) - 1]
            assert max(map(len, body)) <= width
            heads = [line.split() for line in body if line.strip() and line.startswith(" " * 30) and "/" not in line]
            assert [int(cell) for head in heads for cell in head] == [1, 10, 100, 500, 1000, 5000]


def test_notes_say_whose_formula_it_is_and_what_it_covers():
    text = " ".join(study_notes(as_the_study()))
    assert "mean: of 10 runs of one burst each, the warm-up left out; a failed connection counts as 10 s." in text
    assert "truly covers 91.8 % for a mean of 10 runs and 90 % for a difference" in text
    assert study_mean_interval(ten_values(MEANS["ftp", REFERENCE, 10])).confidence == pytest.approx(0.918, abs=5e-4)


# --- the files --------------------------------------------------------------------------------------------------------


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_files_have_the_tables_as_text_and_with_all_digits(tmp_path):
    records = as_the_study([("smtp", "ipv6", 1), ("smtp", "ipv6", 10)])
    write_tables(records, tmp_path / "tables", MADE_AT)
    names = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert names == [
        "response-times.csv",
        *(f"table-{n}.{kind}" for n in ("3-5", "3-6", "6-1") for kind in ("csv", "txt")),
    ]
    assert (tmp_path / "tables" / "table-3-5.txt").read_text().startswith("Table 3-5: SMTP average response")
    rows = read(tmp_path / "tables" / "table-3-5.csv")
    assert [(row["arm"], row["connections"]) for row in rows] == [
        (arm, count) for arm in ("ipv4", "ipv6") for count in ("1", "10")
    ]
    for row in rows:
        assert float(row["mean_ms"]) == pytest.approx(float(row["study_mean_ms"]))
        assert float(row["formula_low_ms"]) == pytest.approx(float(row["study_low_ms"]), abs=0.06)
    (one, _) = read(tmp_path / "tables" / "table-6-1.csv")
    assert float(one["formula_high_ms"]) == pytest.approx(float(one["study_high_ms"]), abs=0.3)


def test_servers_that_differ_are_one_below_the_other_in_one_file(tmp_path):
    records = as_the_study([("smtp", "ipv6", 1)])
    write_tables([*records, dataclasses.replace(records[0], server="other 2.0")], tmp_path, MADE_AT)
    assert (tmp_path / "table-3-5.txt").read_text().count("Table 3-5:") == 2
    assert {row["server"] for row in read(tmp_path / "table-3-5.csv")} == {"real 1.0", "other 2.0"}
    text = (tmp_path / "table-6-1.txt").read_text()
    assert "SMTP, 1k, other 2.0: IPv6 - IPv4" in text


def test_other_designs_have_their_cells_with_all_digits(tmp_path):
    shown = record(
        "http", 10, side("ipv6", [0.0123456789, 0.0123456789]), side("ipv4", [0.01, 0.02]), design="quick",
        estimate=1.5, low=-1.0, high=4.0, taken_from="20261121T1",
    )  # fmt: skip
    write_tables([shown], tmp_path, MADE_AT)
    assert [path.name for path in tmp_path.iterdir()] == ["response-times.csv"]
    reference, test = read(tmp_path / "response-times.csv")
    assert (test["arm"], test["mean_s"], test["change_percent"], test["taken_from"]) == (
        "ipv6", "0.0123456789", "1.5", "20261121T1",
    )  # fmt: skip
    assert (reference["arm"], reference["mean_s"], reference["change_percent"]) == ("ipv4", "0.015", "")
