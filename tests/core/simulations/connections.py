"""Sessions of an application protocol whose connections fail, or are slow, by a known model.

The values by which runs are judged are computed for a whole session at once, as 4000 sessions are 70 million
connections; a test compares them with those that the metrics themselves compute. Effects, verdicts and looks are the
project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import FAILED_SHARE, SLOW_SHARE, Question
from pytest_ipperf.core.inference.effect import Effect, compare
from pytest_ipperf.core.inference.interim_analysis import is_undecided, judgements
from pytest_ipperf.core.inference.verdict import Judgement, Verdict
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.metrics import METRICS

V4, V6 = Arm(4, "native"), Arm(6, "native")
TIME = Question("response_time", Margin.parse("10%,0.5ms"))
FAILED = Question(FAILED_SHARE, Margin.parse("1pp"))
SLOW = Question(SLOW_SHARE, Margin.parse("1pp"), tail=Margin.parse("10%,0.5ms"))
DEADLINE_S = 10.0

Failing = Callable[[Any, tuple[int, ...], int], Any]


# --- how connections fail: the number of failed ones in each run of this size -----------------------------------------


def independent(rng, shape, size, *, share):
    return rng.binomial(size, share, shape)


def clumps(rng, shape, size, *, share):
    """Fail four connections together."""
    groups = size // 4
    return 4 * rng.binomial(groups, share * size / (4 * groups), shape)


def by_run(rng, shape, size, *, share, rho=0.02):
    """Give each run a share of its own, from a beta distribution; `rho` correlates the connections of a run."""
    if not share:
        return np.zeros(shape, dtype=int)
    total = 1 / rho - 1
    return rng.binomial(size, rng.beta(share * total, (1 - share) * total, shape))


def outages(rng, shape, size, *, share):
    """Fail all connections of a run, with this probability."""
    return size * (rng.random(shape) < share)


never = partial(independent, share=0.0)


# --- sessions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A model of an arm's connections.

    Times are lognormal around `median_s` with `sigma`, and runs spread by 3 % around that. A share `later` of the
    connections takes 1 s more, a share `missed` has the median `miss_s`, and the slowest share `doubled` takes twice as
    long.
    """

    median_s: float = 0.01
    sigma: float = 0.5
    later: float = 0.0
    missed: float = 0.0
    miss_s: float = 0.0
    doubled: float = 0.0
    failing: Failing = never

    def times(self, rng: Any, shape: tuple[int, ...], size: int) -> Any:
        """Draw the times of all connections of runs of this shape and size."""
        times = np.exp(self.sigma * rng.standard_normal((*shape, size)))
        if self.doubled:
            times *= 1 + (times > np.exp(self.sigma * NormalDist().inv_cdf(1 - self.doubled)))
        times *= self.median_s * (1 + rng.normal(0, 0.03, (*shape, 1)))
        if self.missed:
            times *= np.where(rng.random(times.shape) < self.missed, self.miss_s / self.median_s, 1)
        return times + (rng.random(times.shape) < self.later) if self.later else times


@dataclass(frozen=True, slots=True)
class Session:
    """Failed connections of all runs of this size, shape (arms, epochs, blocks), and all times if they are drawn.

    The reference is the first arm. The first connections of a run are those that failed; their times do not count.
    """

    size: int
    failed: Any
    times: Any

    def values(self, question: Question, end: int) -> Any:
        """Return the values by which the question judges the runs of the first `end` epochs."""
        failed = self.failed[:, :end]
        if question is FAILED:
            return failed / self.size
        times, completed = self.times[:, :end], np.arange(self.size) >= failed[..., np.newaxis]
        if question is TIME:
            cap_s = min(DEADLINE_S, 10 * float(times[0][completed[0]].mean()))
            return np.where(completed, np.minimum(times, cap_s), cap_s).mean(axis=-1)
        times = np.where(completed, times, np.inf)
        p99_s = float(np.quantile(times[0], 0.99, method="inverted_cdf"))
        return (times > p99_s + max(0.1 * p99_s, 0.0005)).mean(axis=-1)

    def effect(self, question: Question, end: int) -> Effect:
        """Return the effect of the first `end` epochs."""
        metric = METRICS[question.metric].metric
        return compare(runs_of(self.values(question, end), metric.name, self.size), V6, V4, metric)

    def runs(self) -> list[Run]:
        """Return the runs with their failures and times, as a measurement has them."""
        return [
            run_of(place, {}, self.size, failed, self.times[place][failed:].tolist())
            for place, failed in np.ndenumerate(self.failed)
        ]


def run_of(place: tuple[int, ...], values: dict[str, float], size: int, failed: int = 0, times: Any = ()) -> Run:
    arm, epoch, block = place
    return Run(
        arm=(V4, V6)[arm],
        epoch=epoch,
        block=block,
        slot=arm,
        warmup=False,
        started_at=0.0,
        attempted=size,
        failed={"talk reset": int(failed)},
        values=values,
        times=times,
    )


def runs_of(values: Any, metric: str, size: int) -> list[Run]:
    """Return runs with these values of a metric, shape (arms, epochs, blocks), the reference first."""
    return [run_of(place, {metric: float(value)}, size) for place, value in np.ndenumerate(values)]


def session(rng: Any, design: Design, v4: Side, v6: Side, *, timed: bool = True) -> Session:
    of = ((design.most_epochs, design.blocks), design.run_connections)
    failed = np.stack([side.failing(rng, *of) for side in (v4, v6)])
    times = np.stack([side.times(rng, *of) for side in (v4, v6)]) if timed else None
    return Session(design.run_connections, failed, times)


def judged(measured: Session, design: Design, question: Question, *beside: Question) -> Sequence[Judgement]:
    """Return the answers of the look after which a session measures the arm no further, in order of the questions.

    A question about failed or slow connections may stand alone: its metric is then taken to be answered.
    """
    effects: dict[Question, list[Effect]] = {each: [] for each in (question, *beside)}
    for look in range(1, design.looks + 1):
        for each, found in effects.items():
            found.append(measured.effect(each, design.epochs * look))
        answers = judgements(effects.__getitem__, effects, alpha=design.alpha, looks=design.looks)
        alone = question.beside and answers[question].verdict is Verdict.INCONCLUSIVE
        if not alone and not is_undecided(answers):
            break
    return list(answers.values())
