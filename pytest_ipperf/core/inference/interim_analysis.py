"""Interim analyses (looks) of a group-sequential design: effects and answers after each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.effect import Effect, compare
from pytest_ipperf.core.inference.verdict import Judgement, Verdict, judge_looks
from pytest_ipperf.core.measurement.run import Run


def effects_at(
    runs: Sequence[Run],
    test: Arm,
    reference: Arm,
    metric: Metric,
    epochs: Iterable[int],
    *,
    confidence: float = 0.95,
    header_cost: float = 0.0,
) -> tuple[Effect, ...]:
    """Return the effect of `test` at each look, from all data so far; `epochs` holds the number of epochs at each look.

    `header_cost` is the share of goodput that headers alone cost `test`. Later epochs, in which the arm may be missing,
    do not count. Raises InvalidError as `compare` does.
    """
    return tuple(
        compare(
            [run for run in runs if run.epoch < end],
            test,
            reference,
            metric,
            confidence=confidence,
            header_cost=header_cost,
        )
        for end in epochs
    )


def judgements(
    effects_of: Callable[[str], Sequence[Effect]], questions: Iterable[Question], *, alpha: float, looks: int
) -> dict[Question, Judgement]:
    """Return the answers of the looks so far to the questions about an arm; `effects_of` is called once per metric."""
    effects: dict[str, Sequence[Effect]] = {}
    answers = {}
    for question in questions:
        if question.metric not in effects:
            effects[question.metric] = effects_of(question.metric)
        answers[question] = judge_looks(effects[question.metric], question.margin, alpha=alpha, looks=looks)
    return answers


def is_undecided(answers: Mapping[Question, Judgement]) -> bool:
    """Return whether more epochs could still answer a question."""
    return any(answer.verdict is Verdict.INCONCLUSIVE for answer in answers.values())
