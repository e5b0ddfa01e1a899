"""The time course of a session: every run against the mean of its cell, when it was measured."""

import dataclasses
import itertools
import re
from pathlib import Path

import pytest

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.page.figures.axis import from_zero, linear, logarithmic, places, plain
from pytest_ipperf.report.page.figures.session_course import session_course


def summary_of(records, times):
    return SessionSummary(
        name="s", folder=Path("/r/s"), began_at=1000.0, seconds=9.0, question={}, records=tuple(records),
        run_times=times,
    )  # fmt: skip


def times_of(record, step_s=10.0):
    return {
        (record.workload, side.arm): [1000.0 + step_s * at for at in range(len(side.values))] for side in record.sides
    }


def test_every_run_is_a_dot_at_its_time(factory):
    record = factory.application("http", 10, "ipv6", 1.0)
    figure = session_course(summary_of([record], times_of(record)), [record])
    assert figure is not None
    drawn = len(re.findall("<use ", figure.plots[0]))
    beyond = re.findall(r"(\d+) runs lie beyond", figure.caption)
    assert drawn + sum(map(int, beyond)) == 60
    assert "Each of the 60 runs" in figure.caption
    assert "since the first run, min" in figure.plots[0]


def test_the_reference_counts_once_for_all_arms_that_share_it(factory):
    records = [factory.application("http", 10, arm, 1.0) for arm in ("ipv6", "ipv6-tunnel")]
    times = times_of(records[0]) | times_of(records[1])
    figure = session_course(summary_of(records, times), records)
    assert figure is not None
    assert "Each of the 90 runs" in figure.caption
    assert "All arms but the reference are drawn as IPv6." in figure.caption


def test_very_many_runs_are_drawn_as_bands(factory):
    records = [factory.application("http", count, "ipv6", 1.0) for count in range(1, 21)]
    times = {place: found for record in records for place, found in times_of(record).items()}
    figure = session_course(summary_of(records, times), records)
    assert figure is not None
    assert "<use " not in figure.plots[0]
    assert "median and central 80 %" in figure.caption


@pytest.mark.parametrize("lost", ["all", "some"])
def test_runs_whose_times_are_not_known_are_left_out(factory, lost):
    record = factory.application("http", 10, "ipv6", 1.0)
    times = {} if lost == "all" else {place: found[:5] for place, found in times_of(record).items()}
    assert session_course(summary_of([record], times), [record]) is None


def test_other_arms_are_drawn_as_one_that_is_no_twin(factory):
    records = [factory.application("http", 10, arm, 1.0) for arm in ("ipv4-twin", "ipv6", "ipv6-tunnel")]
    times = {place: at for record in records for place, at in times_of(record).items()}
    figure = session_course(summary_of(records, times), records)
    assert figure is not None
    assert "All arms but the reference are drawn as IPv6." in figure.caption


def test_a_share_is_shown_in_points(made):
    record = made.record("udp", "loss", "ipv6", [0.02, 0.03] * 6, [0.01] * 12, levels={"rate": 1e7})
    record = dataclasses.replace(record, test=dataclasses.replace(record.test, values=(0.02, 0.03) * 6))
    figure = session_course(summary_of([record], times_of(record)), [record])
    assert figure is not None


def test_labels_that_would_overlap_are_left_out():
    levels = [float(at) for at in range(100)]
    shown = places(levels, [f"{at:.0f}" for at in levels])
    assert shown.ticks[-1] == (99.0, "99")
    assert 8 <= len(shown.ticks) <= 14
    gaps = [shown.at(after) - shown.at(before) for (before, _), (after, _) in itertools.pairwise(shown.ticks)]
    assert min(gaps) >= 7
    assert len(places([1.0, 2.0, 3.0], ["1", "10", "100"]).ticks) == 3


def test_axes_have_few_plain_ticks_within_their_ends():
    for axis in (
        linear([0.98, 1.31]),
        from_zero([3.0, 7.0]),
        plain(-12, 31),
        logarithmic([0.002, 40]),
        logarithmic([3, 4]),
    ):
        values = [value for value, _ in axis.ticks]
        assert 2 <= len(values) <= 8
        assert all(axis.low <= value <= axis.high + 1e-9 for value in values)
        assert all(float(text) == pytest.approx(value) for value, text in axis.ticks)
    assert (linear([1.0, 3.0]).at(2.0), logarithmic([1.0, 100.0]).at(10.0)) == pytest.approx((50, 50))
