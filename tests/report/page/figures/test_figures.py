"""The page's figures: levels with their changes, distributions with failures, and trends over nights."""

import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.first_estimate import FirstEstimate
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.stats.interval import t_interval, t_quantile
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.flow.curves import curves_of
from pytest_ipperf.report.page.figures.level_plot import margins_differ, offsets
from pytest_ipperf.report.page.figures.levels import level_figure, level_sweeps
from pytest_ipperf.report.page.figures.spread import Sorted, spread_figure
from pytest_ipperf.report.page.figures.trend import trend_figure, trend_of
from pytest_ipperf.report.page.tables.tails import tails
from pytest_ipperf.report.tables.cell_results import margin_change
from pytest_ipperf.report.terminal.trend import trend_lines, trend_steps

# --- by levels --------------------------------------------------------------------------------------------------------


def by_arm(line):
    return {str(curve.arm): curve for curve in curves_of(line)}


def test_an_application_has_a_line_of_connections_with_all_arms(factory):
    records = [
        factory.application("smtp", count, arm, 1.0) for arm in ("ipv6", "ipv6-tunnel") for count in (100, 1, 10)
    ]
    (line,) = level_sweeps(records)
    assert (line.dimension.title, line.values) == ("connections at once", (1, 10, 100))
    assert list(by_arm(line)) == ["ipv4", "ipv6", "ipv6-tunnel"]
    assert line.held == "server postfix 3.7.11, client lean, payload 1k"


def test_payloads_have_a_line_where_connections_do_not_vary(factory):
    one = factory.application("http", 10, "ipv6", 1.0)
    records = [dataclasses.replace(one, payload_bytes=size, cell=f"lab-http-c10-{size}-ipv6") for size in (65536, 1024)]
    (line,) = level_sweeps(records)
    assert (line.dimension.title, line.texts) == ("payload", ["1k", "64k"])
    assert not level_sweeps(records[:1])


def test_all_that_varies_of_flows_has_a_line_for_each_metric(made):
    found = {(line.records[0].metric, line.dimension.title) for line in level_sweeps(made.study())}
    assert found == {
        ("throughput", "window"), ("throughput", "parallel streams"), ("rtt", "payload of a probe"),
        ("throughput", "offered rate"), ("jitter", "offered rate"), ("loss", "offered rate"),
    }  # fmt: skip


def test_intervals_of_means_are_over_the_epochs_means(factory):
    records = [factory.application("smtp", count, "ipv6", 1.02) for count in (1, 10)]
    dot = by_arm(level_sweeps(records)[0])["ipv6"].points[0]
    values = records[0].test.values
    means = [sum(values[at : at + 3]) / 3 for at in range(0, 30, 3)]
    expected = t_interval(means, 0.95)
    assert dot.interval is not None
    assert (dot.interval.low, dot.interval.high) == pytest.approx((expected.low, expected.high))
    assert dot.record is records[0]


def test_a_design_of_few_epochs_that_never_judges_has_no_intervals(made):
    records = [dataclasses.replace(each, design="smoke", judges=False) for each in made.study(epochs=2, blocks=1)]
    figures = [level_figure(line) for line in level_sweeps(records)]
    assert figures
    for line in level_sweeps(records):
        assert {dot.interval for curve in curves_of(line) for dot in curve.points} == {None}
        assert not any(curve.judged for curve in curves_of(line))
    assert all("Mean of 2 runs for each arm, without intervals." in each.caption for each in figures)


def test_the_margin_lies_where_worse_is(made, factory):
    assert margin_change(factory.application("smtp", 100, "ipv6", 1.0)) == pytest.approx(10)
    rate = made.record("tcp", "throughput", "ipv6", [1.0, 2.0], [1.0, 1.0], levels={"window": 65536})
    assert margin_change(rate) == pytest.approx(-10)


def test_dots_stand_at_their_levels():
    """Dots are so near to their level that it can be read, however far the next one is."""
    for at in ([1.0, 10.0], [0.0, 1.0, 2.0, 3.0], [1.0, 10.0, 500.0]):
        aside = offsets(at, 4)
        assert max(map(abs, aside)) <= 0.012 * (at[-1] - at[0])
        assert max(map(abs, aside)) <= 0.08 * (at[1] - at[0])
        assert len(set(aside)) == 4


def test_margins_of_several_arms_are_told_apart_by_their_colours(factory):
    records = [factory.application("smtp", count, arm, 1.0) for arm in ("ipv6", "ipv6-tunnel") for count in (1, 10)]
    alike = [dataclasses.replace(each, margin_fraction=0.1) for each in records]
    wider = [dataclasses.replace(each, margin_fraction=0.4) if each.backend else each for each in alike]
    (same,), (differing,) = level_sweeps(alike), level_sweeps(wider)
    for line, differ, drawn in ((same, False, 1), (differing, True, 2)):
        judged = [curve for curve in curves_of(line) if curve.judged]
        assert margins_differ(judged) == differ
        figure = level_figure(line)
        margins = re.findall(r'<path class="ln limit([^"]*)" d="M(-?\d+) .*?L(\d+) \d+"', figure.plots[0])
        assert len(margins) == drawn
        assert all(int(first) <= 0 and int(last) >= 1000 for _, first, last in margins), "from edge to edge"
        assert {name.strip() for name, *_ in margins} == ({"arm1", "arm3"} if differ else {""})
        assert ("in its colour: the margin of each arm" in figure.caption) == differ


def test_logarithmic_axes_are_told(factory, made):
    near = [factory.application("smtp", count, "ipv6", 1.0) for count in (4, 5)]
    far = [factory.application("smtp", count, "ipv6", 1.0) for count in (1, 500)]
    captions = [level_figure(level_sweeps(each)[0]).caption for each in (near, far)]
    assert ["The axis of the means is logarithmic." in each for each in captions] == [False, True]
    assert ["Levels are placed by their logarithm." in each for each in captions] == [False, True]
    record, name = near[0], ("lab.100mbit-smtp-c4-1k", Arm(6, "native"))
    for times, wide in (([0.1, 0.2], False), ([0.001, 1.0], True)):
        figure = spread_figure(name[0], record, {name: times}, "SMTP")
        assert figure is not None
        assert ("which is logarithmic" in figure.caption) == wide


def test_one_connection_is_one(factory):
    one = factory.application("http", 1, "ipv6", 1.0)
    records = [dataclasses.replace(one, payload_bytes=size, cell=f"lab-http-c1-{size}-ipv6") for size in (65536, 1024)]
    assert level_sweeps(records)[0].held.endswith(", 1 connection")


def test_a_figures_table_has_means_and_changes_with_their_intervals(factory):
    records = [factory.application("smtp", count, "ipv6", 1.02) for count in (1, 10)]
    figure = level_figure(level_sweeps(records)[0])
    assert list(figure.head) == ["Connections at once", "IPv4 (ms)", "IPv6 (ms); change (%)"]
    level, ipv4, ipv6 = figure.rows[0]
    record = records[0]
    assert level == "1"
    assert ipv4.startswith(f"{1000 * record.reference.mean:.3g}"[:3])
    assert record.lower_bound is not None
    assert f"[{record.lower_bound:+.2f}"[:5] in ipv6


# --- distributions ----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.001, 10), min_size=1), st.integers(0, 20), st.floats(0.001, 1))
def test_a_quantile_is_the_first_time_by_which_the_share_is_done(times, failed, share):
    own = Sorted(tuple(sorted(times)), len(times) + failed)
    found = own.quantile(share)
    done = sum(each <= found for each in times)
    assert math.isinf(found) or done >= share * own.attempted
    if math.isinf(found):
        assert len(times) < share * own.attempted
    else:
        assert sum(each < found for each in times) < share * own.attempted


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=1000), st.integers(0, 20))
def test_a_curve_rises_and_ends_at_the_share_that_was_done(times, failed):
    x, y = Sorted(tuple(sorted(times)), len(times) + failed).curve(Unit(1e-3, "ms"))
    assert len(x) == len(y) <= 162
    assert x == sorted(x)
    assert y == sorted(y)
    assert y[0] == 0
    assert y[-1] == pytest.approx(100 * len(times) / (len(times) + failed))
    assert x[-1] == pytest.approx(1000 * max(times))


def test_all_arms_of_a_workload_are_in_its_figure_and_failures_count_as_never(factory):
    record = factory.application("smtp", 10, "ipv6", 1.0)
    times = [0.001 * at for at in range(1, 91)]
    samples = {
        ("lab.100mbit-smtp-c10-1k", Arm(4, "native")): times,
        ("lab.100mbit-smtp-c10-1k", Arm(6, "native")): times + [math.inf] * 10,
    }
    figure = spread_figure("lab.100mbit-smtp-c10-1k", record, samples, "SMTP")
    assert figure is not None
    assert re.findall(r"</svg>(.*?)</li>", figure.key) == ["IPv4", "IPv6"]
    assert "IPv4: p50 45.0, p95 86.0, p99 90.0 ms; IPv6: p50 50.0, p95 never, p99 never ms." in figure.caption
    rows = {row[0]: row for row in figure.rows}
    assert rows["IPv4"][1:] == ("90", "100.0 %", "5.00", "23.0", "45.0", "68.0", "86.0", "90.0", "90.0", "90.0")
    assert rows["IPv6"][1:3] == ("100", "90.00 %")
    assert rows["IPv6"][-3:] == ("never", "never", "never")
    assert "ends below 100 %" in figure.caption


def test_figures_of_a_confirmed_cell_are_of_the_fresh_epochs_that_decided_it(factory):
    record = factory.application("smtp", 10, "ipv6", 1.3)
    first = FirstEstimate(
        estimate=25.0, lower_bound=20.0, upper_bound=30.0, epochs=6, alpha=0.05, level=0.04, sentence=""
    )
    fresh = dataclasses.replace(record, confirms=first)
    samples = {
        (f"{record.workload}{name}", arm): [seconds] * 90
        for name, seconds in (("", 0.001), ("-confirm", 0.002), ("-confirm-2", 0.003))
        for arm in (Arm(4, "native"), Arm(6, "native" if name != "-confirm" else "tunnel"))
    }
    times = {("lab.100mbit-smtp-c10-1k-confirm-2", record.test.arm): [5.0]}
    summary = dataclasses.replace(factory.night_summary(), night=None, samples=samples, run_times=times)
    other = factory.application("smtp", 10, "ipv6-tunnel", 1.0)
    table = tails([fresh, other], Names([fresh, other]))
    assert re.findall(r'scope="rowgroup" rowspan="(\d)">([^<]*)', table) == [("2", "SMTP, fresh epochs"), ("2", "SMTP")]
    assert summary.measured_as(record) == record.workload
    assert summary.measured_as(fresh) == f"{record.workload}-confirm-2"
    figure = spread_figure(summary.measured_as(fresh), fresh, summary.samples, "SMTP")
    assert figure is not None
    assert "IPv6: p50 3.00, p95 3.00" in figure.caption
    assert f"All runs of the fresh epochs of {record.workload} together" in figure.caption
    assert dataclasses.replace(summary, samples={}, run_times={}).measured_as(fresh) == ""


@pytest.mark.parametrize("kept", [[], [math.inf, math.inf]])
def test_what_keeps_no_times_has_no_figure(factory, kept):
    record = factory.application("smtp", 10, "ipv6", 1.0)
    samples = {("lab.100mbit-smtp-c10-1k", Arm(6, "native")): kept}
    assert spread_figure("lab.100mbit-smtp-c10-1k", record, samples, "SMTP") is None


# --- over nights ------------------------------------------------------------------------------------------------------


def test_a_night_has_its_change_with_the_interval_of_its_epochs(factory):
    record = factory.application("smtp", 10, "ipv6", 1.02)
    past = factory.past_of(record, 3)
    found = trend_of(record, past)
    assert found is not None
    half = t_quantile(0.975, 9) * 0.03 / math.sqrt(10)
    night, change = found.points[0], past[0].change
    expected = [100 * math.expm1(each) for each in (change, change - half, change + half)]
    assert (night.change, night.low, night.high) == pytest.approx(expected)
    assert (found.points[-1].today, found.points[-1].change) == (True, record.estimate)


def test_the_figure_of_a_course_tells_what_its_lines_tell(factory):
    """Without intervals of too few epochs, and with a remark on nights that are not compared with."""
    record = factory.application("smtp", 10, "ipv6", 1.02)
    past = factory.past_of(record, 14, level=0.0, changed=7)
    past[2] = dataclasses.replace(past[2], change=math.inf)
    past[3] = dataclasses.replace(past[3], epochs=2)
    past[4] = dataclasses.replace(past[4], sound=False)
    found = trend_of(record, past)
    assert found is not None
    metric = METRICS[record.metric].metric
    figure = trend_figure(found, "SMTP")
    shown = {row[0]: row for row in figure.rows}
    lines = {line.split()[0]: line for line in trend_lines(past, metric, most=20)[3:]}
    assert set(shown) == {*lines, "this session"} - {"night-02"}
    for step in trend_steps(past, metric):
        if step.past.session in shown:
            _, _, change, interval, remarks = shown[step.past.session]
            line = lines[step.past.session]
            assert f"{change} % " in line
            assert interval in line
            assert (step.interval is None) == (interval == "") == ("[" not in line)
            assert ("not compared with" in remarks) == ("not compared with" in line) == (not step.past.sound)
    assert [name for name, row in shown.items() if not row[3]] == ["night-03"]
    assert "Later nights are not compared with 1 of them" in figure.caption


def test_a_share_is_told_in_points(made):
    record = made.record("udp", "loss", "ipv6", [0.02, 0.021], [0.01, 0.01], levels={"rate": 1e7})
    key = HistoryKey("lab", "loss")
    past = [dataclasses.replace(_past(key), change=0.01, sd_epoch=None), _past(key)]
    found = trend_of(record, past)
    assert found is not None
    night = found.points[0]
    assert (night.change, night.low, night.high) == pytest.approx((1, 1, 1))
    assert trend_figure(found, "SMTP").head[2] == "change (pp)"


def _past(key):
    return HistoryEntry(
        key=key, session="a", began_at=0.0, change=0.012, sd_epoch=0.001, epochs=6, test_value=0.02,
        reference_value=0.01, margin="0.5pp", margin_fraction=0.005, header_cost=0.0, verdict="exceeds", fingerprint="",
    )  # fmt: skip


def test_a_lasting_change_and_other_hosts_are_marked(factory):
    record = factory.application("smtp", 10, "ipv6", 1.09)
    found = trend_of(record, factory.past_of(record, 40, level=0.0, changed=25))
    assert found is not None
    assert found.change_points == (25,)
    assert [night.other for night in found.points] == [True] * 10 + [False] * 31
    figure = trend_figure(found, "SMTP")
    assert "a lasting change begins (session night-25)" in figure.caption
    assert "(10 of 41)" in figure.caption
    assert figure.rows[25][-1] == "a lasting change begins"
    assert figure.rows[-1][:2] == ("this session", "")


def test_one_night_is_no_course_and_of_many_the_last_are_drawn(factory):
    record = factory.application("smtp", 10, "ipv6", 1.0)
    assert trend_of(record, factory.past_of(record, 1)) is None
    found = trend_of(record, factory.past_of(record, 300))
    assert found is not None
    assert len(found.points) == 121
    assert found.points[0].session == "night-180"
    assert "180 sessions before them are not drawn." in trend_figure(found, "SMTP").caption
