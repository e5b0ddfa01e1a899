"""Doubts about a cell: verdicts that few packets would give whatever was true."""

import pytest

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.experiment import Conditions
from pytest_ipperf.experiment.doubts import too_few_packets

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
