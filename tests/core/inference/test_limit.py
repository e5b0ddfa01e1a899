"""Limits of one arm, judged on runs whose truth is known."""

import math

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference import limit as rules
from pytest_ipperf.core.inference.interim_analysis import is_undecided
from pytest_ipperf.core.inference.limit import judge_limit_looks, needed_connections
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.records.component import Component
from pytest_ipperf.core.stats.interval import t_quantile

FOUR, SIX = Arm(4, "native"), Arm(6, "native")
P95, P999 = Limit.parse("p95", "20ms"), Limit.parse("p999", "20ms")
MEAN, FAILED, RATE = Limit.parse("mean", "5ms"), Limit.parse("failed_share", "1pp"), Limit.parse("throughput", "90mbit")


def judge_limit(*runs_arm_limit, **options):
    return rules.judge_limit(*runs_arm_limit, **options)


def run(epoch, block=0, *, slow=0, failed=0, attempted=300, value=0.004, name="response_time", arm=FOUR, warmup=False):
    """Make a run of which `slow` connections take 50 ms and the others 10 ms."""
    fast = attempted - failed - slow
    return Run(
        arm=arm, epoch=epoch, block=block, slot=0, warmup=warmup, started_at=0.0, attempted=attempted,
        failed={"refused": failed} if failed else {}, values={name: value}, times=[0.01] * fast + [0.05] * slow,
    )  # fmt: skip


def runs(epochs, blocks=2, **facts):
    return [run(epoch, block, **facts) for epoch in range(epochs) for block in range(blocks)]


def means(*values, name="response_time"):
    return [run(epoch, value=value, name=name) for epoch, value in enumerate(values)]


# --- shares of connections ------------------------------------------------------------------------------------------


def test_few_slow_connections_keep_a_quantile_and_many_do_not():
    assert judge_limit(runs(6, slow=3), FOUR, P95).verdict is Verdict.WITHIN
    assert judge_limit(runs(6, slow=15), FOUR, P95).verdict is Verdict.INCONCLUSIVE
    assert judge_limit(runs(6, slow=30), FOUR, P95).verdict is Verdict.EXCEEDS


def test_ten_connections_without_a_slow_one_prove_nothing():
    found = judge_limit(runs(5, 1, attempted=2), FOUR, P95)
    assert (found.verdict, found.reasons) == (Verdict.INCONCLUSIVE, ("too_few_connections",))
    assert found.needed == needed_connections(P95, 0.05, 5) == 87
    assert found.sentence() == (
        "IPv4: p95 10 ms, 0 of 10 connections slower than 20 ms or failed; inconclusive: the connections that "
        "this design makes cannot show p95 <= 20 ms even if none is beyond it; about 87 connections would"
    )


@pytest.mark.parametrize("limit", [P95, P999, FAILED])
def test_as_many_connections_as_it_names_are_enough(limit):
    needed = needed_connections(limit, 0.05, 6)
    for attempted, verdict in ((-(-needed // 6), Verdict.WITHIN), (needed // 6 - 1, Verdict.INCONCLUSIVE)):
        assert judge_limit(runs(6, 1, attempted=attempted), FOUR, limit).verdict is verdict


def test_the_floor_is_that_of_the_allowed_share_and_never_of_the_one_seen():
    found = judge_limit(runs(6, slow=1), FOUR, P95)
    floor = math.sqrt(0.05 * 0.95 / 3600)
    assert found.effect.standard_error == pytest.approx(floor)
    assert found.bounds[1] == pytest.approx(100 * (1 / 300 + t_quantile(0.95, 5) * floor))
    doubled = judge_limit(runs(6, failed=1), FOUR, FAILED).effect.standard_error
    assert doubled == pytest.approx(math.sqrt(2 * 0.01 * 0.99 / 3600))


def test_epochs_that_differ_by_more_than_that_count_by_their_spread():
    restless = [run(epoch, slow=25 * (epoch % 2)) for epoch in range(6)]
    shares = [25 / 300 * (epoch % 2) for epoch in range(6)]
    spread = math.sqrt(sum((share - sum(shares) / 6) ** 2 for share in shares) / 5)
    assert judge_limit(restless, FOUR, P95).effect.sd_epoch == pytest.approx(spread)


def test_failed_connections_are_infinitely_slow():
    found = judge_limit(runs(6, failed=30), FOUR, P95)
    assert (found.verdict, found.events, found.seen) == (Verdict.EXCEEDS, 360, math.inf)
    assert "p95 beyond all completed connections, 360 of 3600 connections slower than 20 ms" in found.sentence()


def test_a_failure_exceeds_at_a_fifth_of_the_level():
    found = judge_limit(runs(6, failed=30), FOUR, FAILED)
    low, _ = found.effect.one_sided(0.05)
    assert low == pytest.approx(0.1 - t_quantile(0.99, 5) * found.effect.standard_error)
    assert found.verdict is Verdict.EXCEEDS
    assert found.sentence() == (
        "IPv4: 360 of 3600 connections failed (10 %); exceeds limit: the one-sided 99 % lower bound 9.21 % lies beyond "
        "the limit of 1 %"
    )


def test_later_epochs_may_bring_the_connections_that_are_missing():
    found = judge_limit(runs(6, slow=0), FOUR, P999, planned=2)
    assert (found.verdict, found.reasons, found.needed) == (Verdict.INCONCLUSIVE, ("straddles",), 0)


def test_only_the_runs_of_the_arm_count_and_no_warm_ups():
    others = [*runs(6, slow=300, arm=SIX), *[run(epoch, slow=300, warmup=True) for epoch in range(6)]]
    assert judge_limit([*others, *runs(6)], FOUR, P95).verdict is Verdict.WITHIN


# --- means ------------------------------------------------------------------------------------------------------------


def test_a_mean_keeps_its_limit_by_the_bound_of_its_epochs():
    found = judge_limit(means(0.0030, 0.0034, 0.0031, 0.0033, 0.0032, 0.0032), FOUR, MEAN)
    assert found.sentence() == (
        "IPv4: mean 3.2 ms; within limit: the one-sided 95 % upper bound 3.316 ms lies within the limit of 5 ms"
    )
    assert found.effect.shown.estimate == pytest.approx(-36)
    assert found.effect.unit == "% from limit"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.0052, 0.0054, 0.0053, 0.0055, 0.0053), Verdict.EXCEEDS),
        ((0.0052, 0.0044, 0.0053, 0.0055, 0.0043), Verdict.INCONCLUSIVE),
        ((0.0052, 0.0044, 0.0053, 0.0055), Verdict.UNJUDGED),
        ((0.004,) * 6, Verdict.INVALID),
    ],
)
def test_a_mean_has_every_answer(values, verdict):
    assert judge_limit(means(*values), FOUR, MEAN).verdict is verdict


def test_epochs_in_which_everything_fails_are_no_broken_clock():
    lost = [run(epoch, failed=300, value=10.0) for epoch in range(6)]
    assert judge_limit(lost, FOUR, MEAN).verdict is Verdict.EXCEEDS


def test_a_throughput_is_bounded_from_below():
    kept = judge_limit(means(93e6, 94e6, 95e6, 94e6, 94e6, name="throughput"), FOUR, RATE)
    assert kept.sentence() == (
        "IPv4: throughput 94 Mbit/s; within limit: the one-sided 95 % lower bound 93.33 Mbit/s lies within the limit "
        "of 90 Mbit/s"
    )
    assert judge_limit(means(83e6, 84e6, 85e6, 84e6, None, name="throughput"), FOUR, RATE).verdict is not Verdict.WITHIN
    assert judge_limit(means(83e6, 84e6, 85e6, 84e6, 83e6, name="throughput"), FOUR, RATE).verdict is Verdict.EXCEEDS


def test_an_arm_that_was_not_measured_is_told():
    with pytest.raises(InvalidError, match="ipv6 has no runs of which mean could be judged"):
        judge_limit(means(0.004), SIX, MEAN)


# --- looks and records ------------------------------------------------------------------------------------------------


def looked(epochs, limit=P95, looks=5):
    ends = range(6, 6 * looks + 1, 6)
    return judge_limit_looks(epochs, FOUR, limit, ends, quantity="response_time", alpha=0.0158, looks=looks)


def test_the_first_look_that_decides_answers():
    later = [run(epoch, block, slow=100 * (epoch > 5)) for epoch in range(30) for block in range(2)]
    found = looked(later)
    assert (found.verdict, found.look, found.effect.n_epochs) == (Verdict.WITHIN, 1, 6)
    assert found.sentence().endswith(", at look 1 of 5 (6 epochs)")


def test_without_a_decision_the_last_look_answers():
    found = looked([run(epoch, block, slow=15) for epoch in range(30) for block in range(2)])
    assert (found.verdict, found.look) == (Verdict.INCONCLUSIVE, 5)


def test_a_limit_keeps_its_cell_open_until_it_is_answered_and_no_longer():
    kept, open_, broken = (judge_limit(runs(6, slow=slow), FOUR, P95) for slow in (3, 15, 30))
    asked = Question.about(P95)
    assert is_undecided({asked: open_})
    assert not is_undecided({asked: kept})
    assert not is_undecided({asked: broken})
    assert str(asked) == "p95<=20ms"


def test_a_component_says_what_was_asked_of_which_arm():
    found = Component.of(judge_limit(runs(6, slow=3), FOUR, P95))
    assert (found.metric, found.limit, found.arm) == ("p95<=20ms", "p95<=20ms", "ipv4")
    assert (found.title, found.verdict, found.margin) == ("95th percentile at most 20 ms", "within", "5pp")
    assert (found.test_value, found.reference_value, found.change_unit) == (0.01, 0.05, "pp")
    assert found.estimate == pytest.approx(1)
