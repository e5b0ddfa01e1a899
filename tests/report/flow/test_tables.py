"""The tables of flows, with golden texts where the shape matters."""

import csv
import dataclasses
import itertools
import textwrap
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.link_rate import LinkRate
from pytest_ipperf.core.portable.scaling import number, time_pair
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.flow.sweeps import covering_sweeps, sweeps_along
from pytest_ipperf.report.flow.tables import in_order, tables
from pytest_ipperf.report.table_files import write_tables
from pytest_ipperf.report.tables.network_notes import bucket_notes
from pytest_ipperf.report.workload_kinds import tables as all_tables

MADE_AT = datetime(2026, 11, 22, 0, 30, tzinfo=UTC)


def printed(records, **change):
    return [line.rstrip() for line in tables([dataclasses.replace(each, **change) for each in records])]


def rows_of(records):
    return [" ".join(line.split()) for line in tables(records)]


@pytest.fixture
def windows(made):
    return [
        made.record(
            "tcp", "throughput", arm, [value * part] * 2 + [value * part * 1.001], [value, value * 1.002, value],
            levels={"window": window}, payload_bytes=131072,
        )
        for arm, part in (("ipv6-tunnel", 0.97), ("ipv6", 0.985))
        for window, value in ((65536, 9.4e7), (16384, 4.7e7))
    ]  # fmt: skip


def test_a_table_has_a_column_for_each_level_and_rows_for_each_arm_with_what_the_engines_told(windows):
    lines_of = printed(windows)
    assert "\n".join(lines_of[:22]) == textwrap.dedent(
        """\
        TCP: throughput at the receiver in Mbit/s, by window
        testbed lab.100mbit at 100 Mbit/s, tunnels by the kernel's sit driver
        1 stream, payload 128k, direction up, congestion control auto

                                                         16k                    64k
        IPv4                                           47.03                  94.06
          goodput, of at most          47.03 of 94.90 Mbit/s  94.06 of 94.90 Mbit/s
          transfer time ratio                          1.012                  1.012
          TCP efficiency                             99.91 %                99.91 %
          buffer delay                               250.0 %                250.0 %
          retransmits                                   3.00                   3.00
          RTT, mean / base                    4.20 / 1.20 ms         4.20 / 1.20 ms
          congestion window                         64.0 KiB               64.0 KiB
          buffers, send / receive              128 / 256 KiB          128 / 256 KiB
          CPU s/GB, sender / receiver            1.00 / 2.00            1.00 / 2.00
          completed                                 60 of 60               60 of 60
        IPv6                                           46.31                  92.62
          change                                      -1.5 %                 -1.5 %
          95 % interval                         [-1.9, -1.2]           [-1.9, -1.2]
          margin                                        10 %                   10 %
          verdict                                     within                 within
          goodput, of at most          46.31 of 94.90 Mbit/s  92.62 of 94.90 Mbit/s"""
    )
    assert lines_of[22:31] == lines_of[7:16]  # the engines report the same for both


def test_flows_come_in_one_order_whatever_the_order_of_the_records(made):
    records = made.study()
    assert tables(records) == tables(records[::-1])


def test_the_arms_of_a_cell_come_in_the_order_of_the_tables(made):
    arms = ["ipv6", "ipv6-twin", "ipv6-tunnel", "ipv6-isatap"]
    records = [made.record("udp", "loss", "ipv6", [0.0] * 3, [0.0] * 3) for _ in arms]
    of = [
        dataclasses.replace(each, cell=f"lab-udp-{arm}", test=dataclasses.replace(each.test, arm=Arm.parse(arm)))
        for each, arm in zip(records, arms, strict=True)
    ]
    for shuffled in itertools.permutations(of):
        assert [record.cell for record in in_order(shuffled)] == [record.cell for record in of]


def test_a_row_of_windows_and_one_of_streams_are_two_tables_and_the_cell_where_they_cross_is_in_both(made):
    heads = [line for line in printed(made.study()) if line.startswith("TCP: ")]
    assert [head.rpartition(", ")[2] for head in heads] == ["by parallel streams", "by window"]
    windows = next(line for line in printed(made.study())[50:] if line.split()[:1] == ["16k"])
    assert windows.split() == ["16k", "64k", "256k", "auto"]


def test_each_metric_has_a_table_in_its_own_unit_and_what_the_engines_told_stands_in_the_first(made):
    shown = printed(made.study())
    heads = [line for line in shown if line.startswith("UDP: ")]
    assert [head.partition(", by ")[0] for head in heads] == [
        "UDP: throughput at the receiver in Mbit/s", "UDP: jitter (RFC 3550) in us", "UDP: loss in %",
    ]  # fmt: skip
    assert shown.count("the engines' figures of the same runs are in a table above") == 2


def test_shares_differ_in_percentage_points(made):
    records = [
        made.record("udp", "loss", "ipv6", [0.05, 0.06, 0.07], [0.04, 0.05, 0.05], levels={"rate": 1e8}),
    ]  # fmt: skip
    assert {"IPv4 4.667", "IPv6 6.000", "change +1.3 pp", "margin 10 pp"} <= set(rows_of(records))


def test_of_udp_it_is_told_what_was_sent_and_how_evenly_and_trouble_only_where_there_was_any(made):
    record = made.record("udp", "throughput", "ipv6", [5.4e7] * 3, [5.4e7] * 3, levels={"rate": 6e7})
    rows = rows_of([record])
    assert {
        "sent, of offered 59.00 of 60.00 Mbit/s", "loss 10.00 %", "jitter (RFC 3550) 24.0 us", "IPDV 30.0 us",
        "PDV 400 us", "reordering 0 %", "duplication 0 %", "pacing error, median / p99 60.0 ns / 17.5 us",
        "CPU s/GB, sender / receiver 2.71 / 1.51",
    } <= set(rows)  # fmt: skip
    assert not [row for row in rows if row.startswith(("refused", "dropped", "received", "clock"))]
    figures = record.test.figures | {"refused": 12.0, "receiver_drops": 3.0, "delay": 5e-6, "clock_error_s": 1e-7}
    more = rows_of([dataclasses.replace(record, test=dataclasses.replace(record.test, figures=figures))])
    assert {"refused by the sender's host 12.0", "dropped by the receiver's socket 3.00"} <= set(more)
    assert {"one-way delay 5.00 us", "clock error 100 ns"} <= set(more)


def test_a_flood_offers_no_rate(made):
    flood = made.record("udp", "throughput", "ipv6", [5.4e7] * 3, [5.4e7] * 3, levels={"rate": "flood"})
    figures = flood.test.figures | {"offered_bit_s": 0.0}
    rows = rows_of([dataclasses.replace(flood, test=dataclasses.replace(flood.test, figures=figures))])
    assert "sent, of offered 59 Mbit/s (flood)" in rows


def test_what_nobody_told_has_no_row(made):
    record = made.record("rtt", "rtt", "ipv6", [1e-3, 1.1e-3], [1e-3, 1.2e-3], payload_bytes=64)
    bare = [dataclasses.replace(side, figures={}) for side in (record.test, record.reference)]
    rows = rows_of([dataclasses.replace(record, test=bare[0], reference=bare[1])])
    assert not [row for row in rows if row.startswith("loss")]
    assert "completed 60 of 60" in rows


def test_lost_probes_are_counted(made):
    record = made.record("rtt", "rtt", "ipv6", [1e-3, 1.1e-3], [1e-3, 1.2e-3], payload_bytes=64)
    lost = dataclasses.replace(record.test, completed=57, failed={"lost": 3})
    assert {"completed 57 of 60", "failed: lost 3"} <= set(rows_of([dataclasses.replace(record, test=lost)]))


def test_every_metric_shown_is_defined_once_with_formula_and_source(made):
    text = " ".join(" ".join(printed(made.study())).split())
    for name in [*PROTOCOLS["tcp"].metrics, *PROTOCOLS["rtt"].metrics, "jitter", "ipdv", "pdv", "reordering"]:
        metric = METRICS[name].metric
        assert text.count(f"{metric.formula}. Compared by {metric.scale}") == 1
        assert f"{metric.source}." in text
    assert METRICS["delay"].metric.formula not in text  # nobody measured it


@pytest.mark.parametrize(("run_s", "said"), [(1.0, True), (30.0, False)])
def test_shorter_runs_than_rfc_6349_wants_are_told(windows, run_s, said):
    note = "Transfer time ratio, TCP efficiency and buffer delay: of 1 s, shorter than RFC 6349's 30 s."
    assert (note in printed(windows, run_s=run_s)) == said


def test_the_method_is_told(windows):
    text = " ".join(" ".join(printed(windows)).split())
    assert (
        "mean of 3 runs for each arm, warm-ups left out; a run is 1 s of traffic, after 500 ms that are "
        "discarded. Change: of an epoch's blocks (1) as above, the mean over the epochs (3), with a two-sided 95 % t"
    ) in text
    assert "Verdict: one-sided 95 % bounds against the margin (design quick)." in text
    alone = " ".join(printed(windows, design="paper", epochs=1, blocks=3, judges=False))
    assert "Change:" not in alone
    assert "Change of the means: without an interval" in alone
    assert "Design paper never judges." in alone


def test_with_one_epoch_the_change_is_that_of_the_means(made):
    throughput = made.record("udp", "throughput", "ipv6", [9e6, 9e6], [1e7, 1e7], epochs=1, blocks=2)
    loss = made.record("udp", "loss", "ipv6", [0.05, 0.07], [0.04, 0.04], epochs=1, blocks=2)
    rows = rows_of([throughput, loss])
    assert {"change of the means -10.0 %", "change of the means +2.0 pp"} <= set(rows)
    assert not [row for row in rows if row.startswith(("change ", "verdict", "margin", "95")) and "means" not in row]


def test_a_design_that_never_judges_shows_neither_intervals_nor_margins(windows):
    shown = printed(windows, design="smoke", judges=False)
    rows = [" ".join(line.split()) for line in shown]
    assert not [row for row in rows if row.startswith(("95 % interval", "margin"))]
    assert "change -1.5 % -1.5 %" in rows
    text = " ".join(rows)
    assert "the mean over the epochs (3); a ratio's can differ" in text
    assert "t interval" not in text


@pytest.mark.parametrize(("rate_bit_s", "said_so"), [(1e8, True), (0.0, False)])
def test_what_links_with_a_rate_leave_out_of_times_is_told_in_one_line(made, rate_bit_s, said_so):
    for records in (made.study()[:1], made.study()[-9:]):
        shown = printed(records, rate_bit_s=rate_bit_s)
        assert any(line.startswith("Links pass 2788 bytes at once, so RTT") for line in shown) == said_so


def test_what_a_message_lacks_of_its_serialisation_is_told_by_size(made):
    record = made.study()[0]

    def lacks(*payload_bytes):
        (note,) = bucket_notes(dataclasses.replace(record, payload_bytes=size) for size in payload_bytes)
        return note.partition(" link and way ")[2]

    assert lacks(32, 1400) == "7.84 us of 32 bytes, 117 us of 1400 bytes."
    assert lacks(1400, 8192) == "117 us of 1400 bytes, 223 us of more."
    assert lacks(9000) == "223 us of any size."


@pytest.mark.parametrize(("metric", "row"), [("throughput", "of at most"), ("jitter", "received, of at most")])
def test_a_table_of_throughput_does_not_tell_it_twice(made, metric, row):
    record = made.record("udp", metric, "ipv6", [5e7, 5e7], [5e7, 5e7], levels={"rate": 6e7})
    figures = record.test.figures | {"ideal_bit_s": 9.55e7, "throughput": 5e7}
    shown = rows_of([dataclasses.replace(record, test=dataclasses.replace(record.test, figures=figures))])
    result = "95.50 Mbit/s" if metric == "throughput" else "50.00 of 95.50 Mbit/s"
    assert [line for line in shown if "of at most" in line] == [f"{row} {result}"]


def test_a_path_that_misses_its_rate_is_told(windows):
    slow = LinkRate(rate_bit_s=1e8, ceiling_bit_s=9.4e7, goodput_bit_s=None, path_bit_s=9.1e7)
    records = [dataclasses.replace(each, test=dataclasses.replace(each.test, pace=slow)) for each in windows]
    shown = rows_of(records)
    assert "path misses its rate 91 of 100 Mbit/s 91 of 100 Mbit/s" in shown
    assert "A path that misses its rate by more than 1 % is not the requested one." in shown


def test_columns_reused_from_an_earlier_session_are_named(windows):
    records = [
        dataclasses.replace(each, taken_from="20261121T1" if "16k" in each.levels_text else "") for each in windows
    ]
    assert "reused from session 20261121T1: window 16k" in printed(records)


def test_epochs_have_a_row_where_cells_were_decided_after_different_numbers_of_them(windows):
    records = [dataclasses.replace(windows[0], epochs=6), *windows[1:]]
    assert [row for row in rows_of(records) if row.startswith("epochs")] == ["epochs 3 6", "epochs 3 3", "epochs 3 6"]


def test_applications_and_flows_stand_beside_each_other(made, windows):
    base = windows[0]
    smtp = dataclasses.replace(
        base, protocol="smtp", metric="response_time", levels={}, levels_text="", server="postfix 3.7.11",
        test=made.side("ipv6", [0.012, 0.013]), reference=made.side("ipv4", [0.012, 0.013]), design="paper", epochs=1,
    )  # fmt: skip
    shown = all_tables([smtp, *(dataclasses.replace(each, design="paper") for each in windows)])
    assert [line for line in shown if line.startswith("Table 3-5")]
    assert [line for line in shown if line.startswith("TCP: ")]


# --- lines ------------------------------------------------------------------------------------------------------------


POINTS = st.sets(st.tuples(st.sampled_from([1, 4, 8]), st.sampled_from([16384, 65536, "auto"])), min_size=1)


@given(points=POINTS)
def test_lines_hold_all_cells_and_in_each_only_one_thing_varies(points, made):
    records = [
        made.record("tcp", "throughput", "ipv6", [1e6, 1e6], [1e6, 1e6], connections=streams, levels={"window": window})
        for streams, window in points
    ]
    found = covering_sweeps(records)
    assert {id(record) for line in found for record in line.records} == {id(record) for record in records}
    assert len(found) <= len(points)
    for line in found:
        assert len(line.values) == len(line.records)
        held = {"connections", "window"} - {line.dimension.name}
        for name in held:
            assert len({getattr(record, name, record.levels.get(name)) for record in line.records}) == 1


def test_words_come_after_numbers_and_the_longest_line_first(made):
    records = [
        made.record("tcp", "throughput", "ipv6", [1e6, 1e6], [1e6, 1e6], connections=count, levels={"window": window})
        for count, window in ((1, "auto"), (1, 65536), (1, 8192), (2, 8192))
    ]
    first, *_ = sweeps_along(records, "window")
    assert first.texts == ["8k", "64k", "auto"]
    assert first.held == "1 stream, payload 1400, direction up, congestion control auto"


# --- quantities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (94.153, 4, "94.15"), (0.99996, 4, "1.000"), (9.9999, 3, "10.0"), (1234.5, 3, "1234"), (0, 3, "0"),
        (0.00123, 2, "0.0012"), (-2.5, 3, "-2.50"),
    ],
)  # fmt: skip
def test_numbers_have_their_significant_digits(value, digits, text):
    assert number(value, digits) == text


@given(st.floats(1e-9, 1e12), st.integers(1, 6))
def test_a_number_is_what_its_text_says(value, digits):
    assert float(number(value, digits)) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@pytest.mark.parametrize(
    ("metric", "values", "unit", "text"),
    [
        ("throughput", (9.4e7, 5e6), "Mbit/s", "94.00"), ("throughput", (2.5e10,), "Gbit/s", "25.00"),
        ("rtt", (2e-4, 9e-4), "us", "200"), ("rtt", (1.2e-3,), "ms", "1.20"), ("rtt", (0.0,), "ns", "0"),
        ("loss", (0.0123,), "%", "1.230"), ("transfer_time_ratio", (1.0123,), "", "1.012"),
    ],
)  # fmt: skip
def test_a_metric_is_read_in_one_unit(metric, values, unit, text):
    found = unit_of(METRICS[metric].metric, values)
    assert (found.name, found.text(values[0])) == (unit, text)


def test_times_far_apart_have_units_of_their_own():
    assert time_pair(0.0012, 0.0003) == "1.20 / 0.300 ms"
    assert time_pair(4e-8, 1.56e-3) == "40.0 ns / 1.56 ms"
    assert time_pair(1.64e-5, 1.15e-3) == "16.4 us / 1.15 ms"
    assert time_pair(0.0, 1.56e-3) == "0 / 1.56 ms"


# --- figures ----------------------------------------------------------------------------------------------------------


def test_the_figures_have_a_row_for_each_arm_of_each_cell_and_the_reference_once(made, tmp_path):
    records = [each for each in made.study() if each.metric == "loss"]  # no summary is made of it alone
    write_tables(records, tmp_path, MADE_AT)
    with (tmp_path / "flows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cells = {(row["level_rate"], row["arm"]) for row in rows}
    assert len(rows) == len(cells) == 4 * len(records) // 3
    assert sum(row["arm"] == "ipv4" for row in rows) == len(records) // 3
    assert {path.name for path in tmp_path.iterdir()} == {"flows.csv"}
    row = next(
        row for row in rows if row["arm"] == "ipv6" and row["metric"] == "loss" and row["level_rate"] == "100000000.0"
    )
    record = next(each for each in records if each.metric == "loss" and each.levels["rate"] == 1e8)
    assert float(row["mean"]) == record.test.mean
    assert (row["unit"], row["unit_of_change"], row["link_rate_bit_s"]) == ("1", "pp", "100000000.0")
    assert float(row["mean_pacing_error_s"]) == 6e-8


def test_a_reference_that_was_measured_for_longer_is_told_in_full(windows, tmp_path):
    longer = dataclasses.replace(windows[0], epochs=6, reference=dataclasses.replace(windows[0].reference, values=(7,)))
    write_tables([windows[2], longer], tmp_path, MADE_AT)
    with (tmp_path / "flows.csv").open(newline="") as file:
        references = [row for row in csv.DictReader(file) if row["arm"] == "ipv4"]
    assert [float(row["mean"]) for row in references] == [7.0]


def test_repetitions_are_told_by_median_and_percentiles_under_the_design_that_asks_for_them(made):
    values = [9e7 + 1e5 * number for number in range(20)]
    record = made.record("tcp", "throughput", "ipv6", values, [1.01 * each for each in values], design="rfc8219")
    lines = tables([record])
    assert [line.split(maxsplit=4)[4] for line in lines if line.startswith("  median [1st, 99th")] == [
        "91.86 [90.90, 92.82]",
        "90.95 [90.00, 91.90]",
    ]
    assert any(line.startswith("Median [1st, 99th percentile]: of the runs, as RFC 8219") for line in lines)
