"""The values by which response times are judged."""

import dataclasses

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import FAILED_SHARE, SLOW_SHARE
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.metrics.base import LookFacts
from pytest_ipperf.metrics.response_time import cap, measure

V4, V6 = Arm(4, "native"), Arm(6, "native")
FACTS = LookFacts(reference=V4, margin=Margin(0.1), deadline_s=10.0)


def run(arm, times, failed=0):
    return Run(
        arm=arm, epoch=0, block=0, slot=0, warmup=False, started_at=0.0, attempted=len(times) + failed,
        failed={"talk reset": failed}, values={}, times=times,
    )  # fmt: skip


def judged(*runs):
    assert measure.at_look
    return measure.at_look(runs, FACTS)


def test_a_failure_and_a_late_connection_count_as_ten_means_of_the_reference():
    reference = run(V4, [0.01, 0.03])
    assert cap([reference], FACTS) == pytest.approx(0.2)
    assert judged(reference, run(V6, [0.02, 0.04], failed=2), run(V6, [0.02, 5.0])) == pytest.approx(
        [0.02, 0.115, 0.11]
    )


def test_the_cap_is_never_beyond_the_deadline():
    assert cap([run(V4, [3.0, 3.0])], FACTS) == 10.0
    assert cap([run(V4, [], failed=3)], FACTS) == 10.0


def test_a_slower_kind_of_answers_is_judged_though_most_are_fast():
    """A fifth of the answers takes 200 ms, and over IPv6 400 ms: both are beyond ten medians."""
    four, six = judged(run(V4, [0.01] * 8 + [0.2] * 2), run(V6, [0.01] * 8 + [0.4] * 2))
    assert six / four == pytest.approx(0.088 / 0.048)


@pytest.mark.parametrize("margin", ["10%,0.5ms", "10%,5ms", "1000%"])
def test_an_arm_can_exceed_any_margin_below_the_deadline(margin):
    """A margin of 0.5 ms is ten times a reference of 50 us: a cap of ten means alone would hide any excess."""
    runs = [run(V4, [0.00005] * 300), run(V6, [2.0] * 300)]
    facts = dataclasses.replace(FACTS, margin=Margin.parse(margin))
    allowed_s = 0.00005 * (1 + facts.margin.effective(0.00005))
    assert measure.at_look
    assert measure.at_look(runs, facts)[1] == pytest.approx(min(2.0, 2 * allowed_s))


@pytest.mark.parametrize("name", [FAILED_SHARE, SLOW_SHARE])
def test_a_share_of_a_run_that_began_nothing_is_invalid(name):
    judge = METRICS[name].at_look
    assert judge
    with pytest.raises(InvalidError, match="began no connection in epoch"):
        judge([run(V4, [0.01]), run(V6, [])], FACTS)
