"""Doubts about a cell: verdicts that its data would give whatever was true, or that other figures of it contradict."""

import dataclasses
import random

import pytest

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.experiment import Conditions
from pytest_ipperf.experiment.doubts import (
    failed_tail,
    far_slower_runs,
    idle_streams,
    more_lost,
    too_few_packets,
    wrong_content,
)
from pytest_ipperf.metrics.base import LookFacts

FOUR, SIX = Arm(4, "native"), Arm(6, "native")
CELL = Cell(Workload(testbed="lab", protocol="udp", client=LEAN, connections=1, payload_bytes=1400), SIX)
CONDITIONS = Conditions(
    design=DESIGNS["quick"], reference=FOUR, server="auto", deadline_s=10.0, owner="test", wait_s=1.0
)


def runs(sent, value=0.0, metric="loss"):
    return [
        Run(
            arm=arm, epoch=epoch, block=0, slot=0, warmup=False, started_at=0.0, attempted=sent, failed={},
            values={metric: value}, facts={"sent": sent},
        )
        for epoch in range(6)
        for arm in (FOUR, SIX)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "lost", "reported"), [(2, 0.0, True), (99, 0.0, True), (100, 0.0, False), (2, 0.1, False)]
)
def test_of_few_datagrams_of_which_none_was_lost_it_is_not_believed_that_few_are(sent, lost, reported):
    """The rule of three: of n that were sent up to 3 / n may be lost."""
    question = Question("loss", Margin.parse("0.5pp"))
    doubts = too_few_packets(runs(sent, lost), CELL, CONDITIONS, question)
    assert list(doubts) == [Verdict.WITHIN] * reported
    if sent == 2 and reported:
        assert doubts[Verdict.WITHIN] == (
            "no loss among 12 packets that were sent, yet the loss may be up to 25 %; 600 would do (--duration)"
        )


@pytest.mark.parametrize("metric", ["loss", "reordering", "duplication"])
def test_the_doubt_is_about_the_metric_of_the_question(metric):
    question = Question(metric, Margin.parse("0.5pp"))
    doubts = too_few_packets(runs(2, metric=metric), CELL, CONDITIONS, question)
    assert doubts[Verdict.WITHIN].startswith(f"no {metric} among 12 packets that were sent, yet the {metric} may be ")


def test_no_other_metric_is_doubted_for_that():
    assert too_few_packets(runs(2), CELL, CONDITIONS, Question("throughput", Margin.parse("5%"))) == {}


# --- slow runs and connections that the judged values weigh less ------------------------------------------------------

NIGHT = dataclasses.replace(CONDITIONS, design=DESIGNS["nightly"])
TIMES = Question("response_time", Margin.parse("10%"))


def timed(own, design=NIGHT.design):
    """Runs of ten connections; `own` returns the times of one of IPv6 by its epoch and block."""
    rng, found = random.Random(1), []
    for epoch in range(design.epochs):
        for block in range(design.blocks):
            for arm in (FOUR, SIX):
                times = own(epoch, block) if arm == SIX else [0.01] * 10
                times = [time * rng.uniform(0.97, 1.03) for time in times]
                mean_s = sum(times) / len(times)
                found.append(Run(
                    arm=arm, epoch=epoch, block=block, slot=0, warmup=False, started_at=0.0, attempted=10, failed={},
                    values={"response_time": mean_s}, completed_s=mean_s, times=times,
                ))  # fmt: skip
    return found


def test_a_median_of_blocks_that_passes_over_slow_runs_is_not_believed():
    slow = timed(lambda epoch, block: [0.05 if block == epoch % 6 else 0.01] * 10)
    (sentence,) = far_slower_runs(slow, SIX, FOUR, TIMES, NIGHT).values()
    assert sentence.startswith("by the mean of an epoch's blocks, of which the median decides, IPv6 differs by +3")
    assert sentence.endswith(" %, beyond the margin of 10 %")
    assert not far_slower_runs(slow, SIX, FOUR, Question("response_time", Margin.parse("50%")), NIGHT)


def test_times_beyond_the_cap_that_only_one_arm_has_are_not_passed_over():
    stalls = timed(lambda *_: [0.01] * 9 + [0.9])
    capped = [dataclasses.replace(run, values={"response_time": 0.0101 + 0.0001 * run.epoch}) for run in stalls]
    (sentence,) = far_slower_runs(stalls, SIX, FOUR, Question("response_time", Margin.parse("150%")), NIGHT).values()
    assert sentence.startswith("by the mean of all completed connections, whose times are capped where they decide, ")
    assert far_slower_runs(capped, SIX, FOUR, TIMES, NIGHT)  # by the connections' own times


@pytest.mark.parametrize(
    ("own", "design"),
    [
        (lambda *_: [0.01] * 10, "nightly"),
        (lambda epoch, block: [0.05 if (epoch, block) == (0, 0) else 0.01] * 10, "nightly"),  # once, by chance
        (lambda *_: [0.0005] * 10, "nightly"),
        (lambda epoch, block: [0.05 if block == epoch % 6 else 0.01] * 10, "paper"),  # never judges
    ],
    ids=["alike", "once", "faster", "unjudged"],
)
def test_other_cells_are_not_doubted(own, design):
    conditions = dataclasses.replace(CONDITIONS, design=DESIGNS[design])
    assert far_slower_runs(timed(own), SIX, FOUR, TIMES, conditions) == {}


@pytest.mark.parametrize("slow", [True, False])
def test_a_run_in_which_nothing_completed_neither_hides_slow_ones_nor_is_one(slow):
    """Failures have a verdict of their own."""
    found = timed(lambda epoch, block: [0.05 if slow and block == epoch % 6 else 0.01] * 10)
    lost = dataclasses.replace(
        found[-1], failed={"talk reset": 10}, times=[], completed_s=None, values={"response_time": 10.0}
    )
    assert bool(far_slower_runs([*found[:-1], lost], SIX, FOUR, TIMES, NIGHT)) is slow
    every = [
        dataclasses.replace(run, failed={"talk reset": 10}, times=[], completed_s=None, values={"response_time": 10.0})
        if run.arm == SIX and run.block == 1 and not slow
        else run
        for run in found
    ]
    assert bool(far_slower_runs(every, SIX, FOUR, TIMES, NIGHT)) is slow


def test_a_metric_that_is_judged_by_the_mean_is_not_doubted_for_that():
    assert far_slower_runs(runs(99), SIX, FOUR, Question("loss", Margin.parse("0.5pp")), NIGHT) == {}


# --- packets and streams ----------------------------------------------------------------------------------------------


def lossy(share, name="loss"):
    return [
        dataclasses.replace(run, values={"rtt": 0.001, name: share * (run.arm == SIX) + 0.0001 * run.epoch})
        for run in runs(100)
    ]


@pytest.mark.parametrize("name", ["loss", "query_loss"])
def test_times_of_what_arrived_are_not_believed_where_more_was_lost(name):
    question = Question("rtt", Margin.parse("10%"))
    (sentence,) = more_lost(lossy(0.02, name), SIX, FOUR, question, CONDITIONS).values()
    assert "2.02 % instead of 0.025 %, beyond the margin of 0.5 pp" in sentence
    assert more_lost(lossy(0.004, name), SIX, FOUR, question, CONDITIONS) == {}
    assert more_lost(lossy(0.02, name), FOUR, SIX, question, CONDITIONS) == {}  # less
    assert more_lost(lossy(0.02, name), SIX, FOUR, Question(name, Margin.parse("0.5pp")), CONDITIONS) == {}
    assert more_lost(timed(lambda *_: [0.01] * 10), SIX, FOUR, TIMES, NIGHT) == {}  # nothing is known of a loss


@pytest.mark.parametrize(("six", "four", "doubted"), [(1, 0, True), (1, 1, False), (0, 1, False), (0, 0, False)])
def test_a_throughput_is_not_believed_where_more_streams_moved_nothing(six, four, doubted):
    found = [
        dataclasses.replace(run, facts={"idle_streams": six if run.arm == SIX else four} if run.epoch < 2 else {})
        for run in runs(1)
    ]
    said = idle_streams(found, SIX, FOUR, 8)
    assert list(said) == [Verdict.WITHIN] * doubted
    assert not doubted or "(2 of 48 by ipv6 and 0 of 48 by ipv4)" in said[Verdict.WITHIN]


# --- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", [FOUR, SIX])
def test_wrong_content_of_either_side_is_doubted_and_other_failures_are_not(arm):
    failed = [dataclasses.replace(run, failed={"content: too short": 2} if run.arm == arm else {}) for run in runs(9)]
    assert f"(content: 12 by {arm})" in wrong_content(failed, [FOUR, SIX])[Verdict.WITHIN]
    assert wrong_content(failed, [FOUR if arm == SIX else SIX]) == {}
    assert wrong_content([dataclasses.replace(run, failed={"talk reset": 2}) for run in failed], [FOUR, SIX]) == {}


@pytest.mark.parametrize(("failed", "doubted"), [(0, False), (1, True)])
def test_a_reference_whose_tail_is_failures_has_none_to_be_compared_with(failed, doubted):
    """Of 60 connections one is more than 1 %."""
    found = [
        dataclasses.replace(run, times=[0.01] * (10 - lost), failed={"talk reset": 1} if lost else {})
        for run in timed(lambda *_: [0.01] * 10, DESIGNS["quick"])
        for lost in [failed * (run.arm == FOUR and run.block == 0)]
    ]
    question = Question("slow_share", Margin.parse("1pp"), Margin.parse("10%,0.5ms"))
    facts = LookFacts(reference=FOUR, margin=question.margin, deadline_s=10.0, tail=question.tail)
    assert list(failed_tail(found, question, facts)) == [Verdict.WITHIN] * doubted
