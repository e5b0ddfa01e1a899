"""The course of an arm's transfers, from runs whose counts are known."""

import dataclasses

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.records.transfer_course import RUN_COLUMNS, course_from_plain, transfer_course

FACTS = {
    "seconds": 120.0, "payload_bytes": 120e6, "interface_bytes": 130e6, "interface_max_bit_s": 9e6, "transfers": 12.0,
    "longest_gap_s": 0.5, "agent_bytes": 1e6, "agent_descriptors": 9.0,
}  # fmt: skip


def run(began_at, *, seconds=120, failed=None, **facts):
    return Run(
        arm=Arm(4, "native"), epoch=0, block=0, slot=0, warmup=False, started_at=0.0, attempted=14,
        failed=failed or {}, values={}, facts={**FACTS, **facts}, began_at=began_at,
        course=tuple((float(at), 1e6 * at, 1.1e6 * at) for at in range(seconds + 1)),
    )  # fmt: skip


def course_of(runs):
    course = transfer_course(runs)
    assert course is not None
    return course


def test_seconds_are_those_of_the_first_run_and_minutes_those_of_all():
    course = course_of([run(1000.0), run(1130.0)])
    assert len(course.seconds) == 120
    assert course.seconds[0] == pytest.approx((1.0, 8e6, 8.8e6))
    assert [row[0] for row in course.minutes] == [30.0, 90.0, 160.0, 220.0]
    assert all(row[1:] == pytest.approx((8e6, 8.8e6)) for row in course.minutes)


@pytest.mark.parametrize(("seconds", "minutes"), [(1, 1), (59, 1), (60, 1), (70, 2), (300, 5)])
def test_a_run_is_divided_into_minutes_or_less(seconds, minutes):
    assert len(course_of([run(0.0, seconds=seconds)]).minutes) == minutes


def test_of_a_long_run_the_first_five_minutes_are_kept_second_by_second():
    assert len(course_of([run(0.0, seconds=1000)]).seconds) == 300


def test_each_run_has_its_counts_and_what_no_host_reported_is_left_out():
    course = course_of([run(5.0), run(135.0, failed={"transfer reset": 2}, agent_bytes=3e6)])
    assert course.column("at_s") == [0.0, 130.0]
    assert course.column("goodput_bit_s") == [8e6, 8e6]
    assert course.column("failures") == [0.0, 2.0]
    assert course.column("agent_bytes") == [1e6, 3e6]
    assert course.column("server_bytes") == []
    assert {len(row) for row in course.runs} == {len(RUN_COLUMNS)}


def test_runs_of_other_kinds_have_none():
    assert transfer_course([]) is None
    assert transfer_course([run(0.0), dataclasses.replace(run(1.0), course=())]) is None


def test_it_is_read_as_it_is_written():
    course = course_of([run(0.0)])
    assert course_from_plain(dataclasses.asdict(course)) == course
    assert course_from_plain(None) is None
