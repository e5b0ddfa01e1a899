"""Looks: what the data of an arm say after each of them, and what that answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.effect import Effect, compare
from pytest_ipperf.core.judge import Judgement, Verdict, judge_looks
from pytest_ipperf.core.margin import Margin
from pytest_ipperf.core.metric import Metric
from pytest_ipperf.core.run import Run


def effects_at(
    runs: Sequence[Run], test: Arm, reference: Arm, metric: Metric, epochs: Iterable[int], *, confidence: float = 0.95
) -> tuple[Effect, ...]:
    """The effect of `test` at each look, all data so far; `epochs` tells how many epochs there were then.

    Later epochs, in which the arm may be missing, do not count. Raises InvalidError as `compare` does.
    """
    return tuple(
        compare([run for run in runs if run.epoch < end], test, reference, metric, confidence=confidence)
        for end in epochs
    )


def judgements(
    effects: Sequence[Effect], margins: Iterable[Margin], *, alpha: float, looks: int
) -> dict[Margin, Judgement]:
    """What the looks so far answer to each of the questions that are asked of an arm."""
    return {margin: judge_looks(effects, margin, alpha=alpha, looks=looks) for margin in margins}


def is_open(answers: Mapping[Margin, Judgement]) -> bool:
    """Whether a question is left that more epochs could answer."""
    return any(answer.verdict is Verdict.INCONCLUSIVE for answer in answers.values())
