"""Table V of paper 001: its arithmetic checked by hand, its grades by the ends of intervals, its wording."""

import csv
import dataclasses
import math
import re
import statistics
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf import __version__
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.interval import t_quantile
from pytest_ipperf.report.studies import router
from pytest_ipperf.report.studies.router.experiments import EXPERIMENTS
from pytest_ipperf.report.studies.router.grades import grade
from pytest_ipperf.report.studies.router.printed import RATIOS
from pytest_ipperf.report.studies.router.ratio import LogRatio, combined, ratio_of
from pytest_ipperf.report.studies.router.summary import summaries
from pytest_ipperf.report.studies.router.text import figures, ratio_text
from pytest_ipperf.report.table_files import write_router_study
from pytest_ipperf.report.tables.arm_rows import independent_values
from pytest_ipperf.report.workload_kinds import tables

TCP, RTT, UDP, JITTER, LOSS = EXPERIMENTS
SIX, ISATAP, TUNNEL = Arm(6, "native"), Arm(6, "isatap"), Arm(6, "tunnel")


def rows_of(records, start="Table V"):
    shown = [" ".join(line.split()) for line in router.tables(records)]
    return shown[next(at for at, line in enumerate(shown) if line.startswith(start)) :] if shown else []


def found_in(summary, experiment, arm):
    ratio = summary.ratios[experiment.name, arm].ratio
    assert ratio is not None
    return ratio.estimate


# --- the paper --------------------------------------------------------------------------------------------------------


def test_the_printed_ratios_are_those_of_table_v_and_have_the_grades_that_its_text_gives_them():
    assert {each.name for each in EXPERIMENTS} == {name for name, _ in RATIOS}
    words = {
        (name, str(arm)): grade(ratio, next(each for each in EXPERIMENTS if each.name == name).measured.direction).name
        for (name, arm), ratio in RATIOS.items()
    }
    # "IPV6 has produced very good packet loss values, and ISATAP has produced good packet loss values".
    assert {place: word for place, word in words.items() if word != "excellent"} == {
        ("loss", "ipv6"): "very good", ("loss", "ipv6-isatap"): "good", ("jitter", "ipv6-isatap"): "very good",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "experiment", "text"),
    [(0.985, TCP, "98.5 %"), (1.04, RTT, "1.04"), (1.0, UDP, "100 %"), (1.0, LOSS, "1.00"), (0.5, TCP, "50.0 %")],
)
def test_ratios_are_told_as_the_paper_tells_them(ratio, experiment, text):
    assert ratio_text(ratio, experiment) == text


# --- one cell ---------------------------------------------------------------------------------------------------------


def test_the_ratio_of_a_cell_is_its_effect(made):
    record = made.record("tcp", "throughput", "ipv6", [90.0, 95.0, 98.0], [100.0, 100.0, 100.0])
    logs = [math.log(value / 100) for value in (90, 95, 98)]
    found = ratio_of(record)
    assert found.estimate == pytest.approx(statistics.fmean(logs))
    assert found.error == pytest.approx(statistics.stdev(logs) / math.sqrt(3))
    assert found.df == 2


def test_with_one_epoch_it_is_that_of_its_blocks_in_pairs(made):
    record = made.record("rtt", "rtt", "ipv6", [2.0, 8.0], [1.0, 2.0], epochs=1, blocks=2)
    found = ratio_of(record)
    assert found.estimate == pytest.approx(1.5 * math.log(2))  # of ln 2 and ln 4
    assert found.error == pytest.approx(math.log(2) / 2)  # their spread is ln 2 / sqrt 2
    assert found.df == 1


def test_the_multiple_of_a_loss_is_that_of_the_means_and_single_runs_may_have_none(made):
    record = made.record("udp", "loss", "ipv6", [0.0, 0.04, 0.02], [0.01, 0.02, 0.0], blocks=1)
    found = ratio_of(record)
    assert found.estimate == pytest.approx(math.log(2))
    # Each as a multiple of its mean: 0, 2, 1 and 1, 2, 0; their differences are -1, 0, 1.
    assert found.error == pytest.approx(1 / math.sqrt(3))


def test_blocks_of_an_epoch_are_one_value(made):
    record = made.record("udp", "loss", "ipv6", [0.01, 0.03, 0.02, 0.04], [0.01] * 4, blocks=2)
    assert independent_values(record.test.values, record) == pytest.approx([0.02, 0.03])


@pytest.mark.parametrize(
    ("values", "reference", "changes"),
    [([0.0, 0.0], [0.1, 0.2], {}), ([0.1, 0.2], [0.0, 0.0], {}), ([0.1], [0.2], {}), ([0.1, 0.2], [0.1, 0.2, 0.3], {})],
)
def test_a_share_without_two_means_has_no_multiple(made, values, reference, changes):
    record = made.record("udp", "loss", "ipv6", [0.1, 0.2], [0.1, 0.2])
    sides = {"test": made.side("ipv6", values), "reference": made.side("ipv4", reference)}
    with pytest.raises(InvalidError):
        ratio_of(dataclasses.replace(record, **sides, **changes))


def test_what_is_zero_or_beyond_all_numbers_has_no_ratio(made):
    zero = made.record("udp", "jitter", "ipv6", [0.0, 1.0], [1.0, 1.0], epochs=1, blocks=2)
    far = made.record("rtt", "rtt", "ipv6", [1.0, 2.0], [1.0, 1.0])
    lost = dataclasses.replace(zero, test=dataclasses.replace(zero.test, values=(math.inf, 1.0)))
    value = "a value that is 0 or infinite has no ratio"
    apart = dataclasses.replace(far, estimate=math.inf)
    for record, why in ((zero, value), (lost, value), (apart, "a change of inf % has no ratio")):
        with pytest.raises(InvalidError) as caught:
            ratio_of(record)
        assert str(caught.value) == f"{record.cell}: {why}"
    (summary,) = summaries([zero, dataclasses.replace(far, epochs=2, estimate=math.inf, design=zero.design)])
    assert {standing.ratio for standing in summary.ratios.values()} == {None}


# --- several cells ----------------------------------------------------------------------------------------------------


def test_cells_are_combined_by_hand():
    found = combined([LogRatio(0.1, 0.03, 5), LogRatio(0.3, 0.04, 10)], 0.95)
    df = (0.03**2 + 0.04**2) ** 2 / (0.03**4 / 5 + 0.04**4 / 10)
    assert df == pytest.approx(14.95, abs=0.01)
    assert found.df == pytest.approx(df)
    assert found.estimate == pytest.approx(math.exp(0.2))
    half = t_quantile(0.975, df) * 0.05 / 2
    assert (found.low, found.high) == pytest.approx((math.exp(0.2 - half), math.exp(0.2 + half)))


CELLS = st.lists(
    st.builds(LogRatio, st.floats(-2, 2), st.floats(0, 1), st.integers(1, 30)), min_size=1, max_size=8
)  # fmt: skip


@given(CELLS)
def test_the_combined_interval_is_around_the_mean_and_swapping_the_arms_turns_it(cells):
    found = combined(cells, 0.95)
    assert found.low <= found.estimate <= found.high
    turned = combined([LogRatio(-each.estimate, each.error, each.df) for each in cells], 0.95)
    assert turned.estimate == pytest.approx(1 / found.estimate)
    least = min(each.df for each in cells)
    if any(each.error for each in cells):
        assert least - 1e-6 <= found.df <= sum(each.df for each in cells) + 1e-6


@given(CELLS)
def test_more_of_the_same_cells_never_widen_it(cells):
    once, twice = combined(cells, 0.95), combined(cells * 2, 0.95)
    assert twice.estimate == pytest.approx(once.estimate)
    assert math.log(twice.high / twice.low) <= math.log(once.high / once.low) + 1e-9


def test_there_is_nothing_to_combine_of_no_cells():
    with pytest.raises(InvalidError, match="no cell"):
        combined([], 0.95)


# --- Table V ----------------------------------------------------------------------------------------------------------


def test_known_ratios_come_out_again(made):
    (summary,) = summaries(made.study(spread=0.002))
    truth = {(RTT, SIX): 1.04, (RTT, ISATAP): 1.09, (JITTER, ISATAP): 1.3, (LOSS, TUNNEL): 2.5, (TCP, SIX): 0.985}
    for (experiment, arm), ratio in truth.items():
        assert found_in(summary, experiment, arm) == pytest.approx(ratio, rel=0.01)


@pytest.mark.parametrize(("epochs", "blocks", "said"), [(6, 2, "of epochs."), (1, 10, "of blocks of one epoch")])
def test_what_the_intervals_are_of_is_told(made, epochs, blocks, said):
    text = " ".join(rows_of(made.study(epochs=epochs, blocks=blocks)))
    assert f"The intervals are {said}" in text


def test_the_table_has_a_row_for_each_arm_in_the_papers_order_with_its_figure_as_a_column(made):
    rows = rows_of(made.study(spread=0.0005))
    assert rows[0] == "Table V of paper 001 again: figures of IPv6 and tunnels relative to IPv4"
    assert rows[1] == "testbed lab.100mbit at 100 Mbit/s, tunnels by the kernel's sit driver"
    assert rows[2] == "design quick, 12 runs of 1 s for each arm of a cell, seed 7"
    assert rows[4:10] == [
        "95 % interval grade paper its grade",
        "TCP throughput, % of IPv4",
        "IPv4 100 % excellent 100 % excellent",
        rows[7],
        rows[8],
        rows[9],
    ]
    assert re.fullmatch(r"IPv6 98\.\d+ % \[98\.\d+, 98\.\d+\] excellent 98\.5 % excellent", rows[7])
    assert re.fullmatch(r"IPv6 isatap 96\.\d+ % \[96\.\d+, 96\.\d+\] excellent 96\.2 % excellent", rows[8])
    assert re.fullmatch(r"IPv6 tunnel 96\.\d+ % \[96\.\d+, 96\.\d+\] excellent - -", rows[9])


def test_a_grade_is_that_of_both_ends_of_the_interval(made):
    wide = [made.record("udp", "jitter", "ipv6", [1.0, 1.2, 1.4], [1.0, 1.0, 1.0])]
    sure = [made.record("rtt", "rtt", "ipv6", [1.2, 1.21, 1.22], [1.0, 1.0, 1.0])]
    (summary,) = summaries(wide + sure)
    assert str(summary.ratios["jitter", SIX].graded) == "excellent to acceptable"
    assert str(summary.ratios["rtt", SIX].graded) == "very good"


def test_a_loss_is_compared_only_where_ipv4_lost_something_and_that_is_said(made):
    lossless = made.record("udp", "loss", "ipv6", [0.0, 0.002, 0.0], [0.0, 0.0, 0.0], levels={"rate": 6e7})
    now_and_then = made.record("udp", "loss", "ipv6", [0.0] * 3, [0.0, 0.01, 0.0], levels={"rate": 8e7})
    lossy = made.record("udp", "loss", "ipv6", [0.06, 0.08, 0.07], [0.05, 0.05, 0.05], levels={"rate": 1e8})
    throughput = made.record("udp", "throughput", "ipv6", [9.0, 9.1, 9.2], [10.0] * 3)
    records = [lossless, now_and_then, lossy, throughput]
    (summary,) = summaries(records)
    standing = summary.ratios["loss", SIX]
    assert standing.cells == 1
    assert found_in(summary, LOSS, SIX) == pytest.approx(1.4)
    note = "1 of 3 levels have packet loss of IPv4 in every epoch; left out: 60mbit (0.067 %, IPv4 0 %), 80mbit (0 %,"
    assert note in " ".join(rows_of(records))
    (none,) = summaries([lossless, throughput])
    assert none.ratios["loss", SIX].ratio is None
    assert "IPv6 - - 1.225 very good" in rows_of([lossless, throughput])


def test_an_arm_that_never_lost_where_ipv4_did_has_no_multiple_and_that_is_said(made):
    never = made.record("udp", "loss", "ipv6", [0.0] * 3, [0.01] * 3, levels={"rate": 6e7})
    throughput = made.record("udp", "throughput", "ipv6", [9.0, 9.1, 9.2], [10.0] * 3)
    assert "Packet loss of IPv6: a share that is 0 has no multiple." in rows_of([never, throughput])


def test_one_column_is_no_summary_and_other_references_and_twins_are_none(made):
    records = made.study(arms=("ipv6",))
    assert router.tables([record for record in records if TCP.holds(record)]) == []
    other = [dataclasses.replace(each, reference=dataclasses.replace(each.reference, arm="ipv6")) for each in records]
    assert router.tables(other) == []
    assert router.tables([dataclasses.replace(each, twin=True) for each in records]) == []
    assert router.tables([]) == []


@pytest.mark.parametrize(
    ("protocol", "change"),
    [
        ("tcp", {"levels": {"direction": "down"}}), ("tcp", {"levels": {"congestion": "reno"}}),
        ("tcp", {"levels": {"sending": "sendfile"}}), ("tcp", {"levels": {"receiving": "discard"}}),
        ("rtt", {"levels": {"probe": "icmp"}}), ("rtt", {"levels": {"waiting": "wire"}}),
        ("udp", {"payload_bytes": 8192}),
    ],
)  # fmt: skip
def test_only_the_studys_own_cells_enter_the_table(made, protocol, change):
    metric = {"tcp": "throughput", "rtt": "rtt", "udp": "jitter"}[protocol]
    names = {each.name for each in EXPERIMENTS if (each.protocol, each.metric) == (protocol, metric)}
    (before,) = summaries(made.study())
    (after,) = summaries([*made.study(), made.record(protocol, metric, "ipv6", [3.0, 4.0], [1.0, 1.0], **change)])
    assert [after.ratios[name, SIX] for name in names] == [before.ratios[name, SIX] for name in names]
    others = [each for each in made.study() if each.protocol != protocol]
    (without,) = summaries([*others, made.record(protocol, metric, "ipv6", [3.0, 4.0], [1.0, 1.0], **change)])
    assert not names & {each.name for each in without.experiments}


def test_a_design_of_epochs_that_never_judges_has_ratios_alone_and_says_so(made):
    judged = made.study(epochs=2, blocks=1)
    records = [dataclasses.replace(each, design="smoke", judges=False) for each in judged]
    rows = rows_of(records)
    assert rows[2] == "design smoke (never judges), 2 runs of 1 s for each arm of a cell, seed 7"
    assert "Design smoke never judges: no intervals, no grades." in rows
    assert "IPv4 100 % - - 100 % excellent" in rows
    assert [row for row in rows if re.fullmatch(r"IPv6 isatap 9\d\.\d % - - 96\.2 % excellent", row)]
    assert not [row for row in rows if "[" in row or "Welch" in row]
    (bare,), (full,) = summaries(records), summaries(judged)
    found, whole = figures(bare), figures(full)
    assert [row["ratio"] for row in found] == [row["ratio"] for row in whole]
    assert {row[name] for row in found for name in ("low", "high", "df", "best_grade", "worst_grade")} == {None}


def test_design_paper_never_judges_and_keeps_the_intervals_of_its_blocks(made):
    (summary,) = summaries(made.study(epochs=1, blocks=10))
    assert not summary.bare
    rows = rows_of(made.study(epochs=1, blocks=10))
    assert rows[2] == "design paper (never judges), 10 runs of 1 s for each arm of a cell, seed 7"
    assert [row for row in rows if re.fullmatch(r"IPv6 98\.\d+ % \[.*\] excellent 98\.5 % excellent", row)]


def test_what_links_with_a_rate_leave_out_of_round_trips_is_told(made):
    note = "Links pass 2788 bytes at once, so RTT,"
    assert note in " ".join(rows_of(made.study()))
    assert note not in " ".join(rows_of([dataclasses.replace(each, rate_bit_s=0.0) for each in made.study()]))


def test_each_testbed_and_design_has_a_table_of_its_own(made):
    records = made.study(arms=("ipv6",))
    elsewhere = [dataclasses.replace(each, testbed="lab", cell=f"{each.cell}-elsewhere") for each in records]
    assert sum(line.startswith("Table V") for line in router.tables(records + elsewhere)) == 2


def test_it_is_the_same_whatever_the_order_of_the_records(made):
    records = made.study()
    assert router.tables(records) == router.tables(records[::-1])


def test_the_terminal_ends_with_it(made):
    records = made.study(arms=("ipv6-isatap",))
    assert tables(records)[-len(router.tables(records)) :] == router.tables(records)


def test_figures_have_all_digits(made):
    (summary,) = summaries(made.study())
    rows = {(row["experiment"], row["arm"]): row for row in figures(summary)}
    assert len(rows) == 5 * 4
    found, row = summary.ratios["rtt", ISATAP].ratio, rows["rtt", "ipv6-isatap"]
    assert found is not None
    assert [row[name] for name in ("ratio", "low", "high", "df")] == [found.estimate, found.low, found.high, found.df]
    assert (row["paper"], row["paper_grade"], row["cells"]) == (1.09, "excellent", 3)
    assert rows["rtt", "ipv4"]["ratio"] == 1.0


def test_table_v_is_written_as_text_and_figures(made, tmp_path):
    records = [made.record(*of, "ipv6", [1.0, 2.0], [1.0, 1.5]) for of in (("rtt", "rtt"), ("udp", "jitter"))]
    write_router_study(records, tmp_path, datetime(2026, 11, 22, 1, 30, tzinfo=timezone(timedelta(hours=1))))
    title, _, how, *_ = (tmp_path / "table-V.txt").read_text().splitlines()
    assert title.startswith("Table V of paper 001 again")
    assert how == (
        f"2026-11-22 00:30 UTC, pytest-ipperf {__version__}; design quick, 2 runs of 1 s for each arm of a cell, seed 7"
    )
    with (tmp_path / "table-V.csv").open(newline="") as file:
        assert [row["experiment"] for row in csv.DictReader(file)] == ["rtt", "rtt", "jitter", "jitter"]
