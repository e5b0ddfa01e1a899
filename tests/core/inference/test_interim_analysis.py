"""Looks at data whose truth is known."""

import math
import random

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.interim_analysis import effects_at, is_undecided, judgements
from pytest_ipperf.core.inference.verdict import Verdict, judge_looks
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.metrics import METRICS

FOUR, SIX = Arm(4, "native"), Arm(6, "native")
METRIC = METRICS["response_time"].metric
STANDARD = DESIGNS["standard"]
ENDS = range(STANDARD.epochs, STANDARD.most_epochs + 1, STANDARD.epochs)


def runs(rng, epochs, *, slower=0.0, spread=0.05, ends=None):
    """Make runs of one block in each epoch; `ends` is the epoch from which IPv6 is no longer measured."""
    return [
        Run(
            arm=arm, epoch=epoch, block=0, slot=0, warmup=False, started_at=0.0, attempted=1, failed={},
            values={"response_time": 0.01 * (1 + slower * (arm == SIX)) * math.exp(rng.gauss(0, spread))},
        )
        for epoch in range(epochs)
        for arm in (FOUR, SIX)
        if arm == FOUR or ends is None or epoch < ends
    ]  # fmt: skip


def test_a_look_holds_all_data_so_far_and_none_that_comes_later():
    measured = runs(random.Random(1), 30)
    effects = effects_at(measured, SIX, FOUR, METRIC, [10, 20, 30])
    assert [effect.n_epochs for effect in effects] == [10, 20, 30]
    assert effects[:1] == effects_at([run for run in measured if run.epoch < 10], SIX, FOUR, METRIC, [10])


def test_what_headers_cost_is_told_of_every_look():
    effects = effects_at(runs(random.Random(1), 20), SIX, FOUR, METRIC, [10, 20], header_cost=0.02)
    assert [effect.header_cost for effect in effects] == [0.02, 0.02]


def test_an_arm_that_was_closed_is_looked_at_up_to_there():
    closed, whole = (runs(random.Random(1), 10, ends=ends) for ends in (None, 10))
    assert closed == whole
    longer = [*whole, *(run for run in runs(random.Random(2), 30) if run.arm == FOUR and run.epoch >= 10)]
    assert effects_at(longer, SIX, FOUR, METRIC, [10]) == effects_at(whole, SIX, FOUR, METRIC, [10])
    with pytest.raises(InvalidError, match="ipv6 was not measured in epoch 10, block 0, but ipv4 was"):
        effects_at(longer, SIX, FOUR, METRIC, [20])


def test_an_arm_is_open_as_long_as_one_of_its_questions_is():
    effects = effects_at(runs(random.Random(1), 10, slower=0.1), SIX, FOUR, METRIC, [10])
    wide, near = Question("response_time", Margin(0.5)), Question("response_time", Margin(0.1))
    asked = []

    def effects_of(question):
        asked.append(question.metric)
        return effects

    both = judgements(effects_of, [wide, near], alpha=0.0221, looks=3)
    assert asked == ["response_time"]  # once, however many questions
    assert {question: answer.verdict for question, answer in both.items()} == {
        wide: Verdict.WITHIN,
        near: Verdict.INCONCLUSIVE,
    }
    assert is_undecided(both)
    assert not is_undecided(judgements(lambda _: effects, [wide], alpha=0.0221, looks=3))


def test_the_looks_together_are_wrong_as_seldom_as_one():
    """Fixed seed, the truth at the margin: each wrong verdict in 4.9 % of the sessions, by simulation of 400 000."""
    rng, count = random.Random(20240612), 600
    found = []
    for _ in range(count):
        effects = effects_at(runs(rng, 30, slower=0.1), SIX, FOUR, METRIC, ENDS)
        found.append(judge_looks(effects, Margin(0.1), alpha=STANDARD.alpha, looks=STANDARD.looks))
    verdicts = [answer.verdict for answer in found]
    # Four standard errors: sqrt(.049 * .951 / 600) = .0088.
    assert verdicts.count(Verdict.WITHIN) / count == pytest.approx(0.049, abs=0.035)
    assert verdicts.count(Verdict.EXCEEDS) / count == pytest.approx(0.049, abs=0.035)
    # The printed interval then covers the truth in 89 %, with a standard error of 1.3 %.
    intervals = [answer.effect.change for answer in found if answer.effect is not None]
    covered = sum(interval.low <= math.log(1.1) <= interval.high for interval in intervals)
    assert covered / count == pytest.approx(0.89, abs=0.05)
