"""Interim analyses (looks) of a group-sequential design: effects and answers after each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
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
    at_look: Callable[[Sequence[Run]], Sequence[float]] | None = None,
) -> tuple[Effect, ...]:
    """Return the effect of `test` at each look, from all data so far; `epochs` holds the number of epochs at each look.

    `header_cost` is the share of goodput that headers alone cost `test`. Later epochs, in which the arm may be missing,
    do not count. `at_look` returns the values of the runs of a look if they are not the runs' own. Raises InvalidError
    as `compare` does.
    """
    return tuple(
        compare(
            _judged(runs, (test, reference), metric, end, at_look),
            test,
            reference,
            metric,
            confidence=confidence,
            header_cost=header_cost,
        )
        for end in epochs
    )


def _judged(
    runs: Sequence[Run],
    arms: Collection[Arm],
    metric: Metric,
    end: int,
    at_look: Callable[[Sequence[Run]], Sequence[float]] | None,
) -> Sequence[Run]:
    """Return the runs of the first `end` epochs that count, with the values by which they are judged."""
    counted = [run for run in runs if run.epoch < end and not run.warmup and run.arm in arms]
    if at_look is None:
        return counted
    return [
        replace(run, values={**run.values, metric.name: value})
        for run, value in zip(counted, at_look(counted), strict=True)
    ]


def judgements(
    effects_of: Callable[[Question], Sequence[Effect]], questions: Iterable[Question], *, alpha: float, looks: int
) -> dict[Question, Judgement]:
    """Return the answers of the looks so far to the questions about an arm; `effects_of` is called once per metric."""
    effects: dict[tuple[str, Margin | None], Sequence[Effect]] = {}
    answers = {}
    for question in questions:
        quantity = (question.metric, question.tail)
        if quantity not in effects:
            effects[quantity] = effects_of(question)
        answers[question] = judge_looks(effects[quantity], question.margin, alpha=alpha, looks=looks)
    return answers


def is_undecided(answers: Mapping[Question, Judgement]) -> bool:
    """Return whether more epochs could still change what a test shows.

    A test that exceeds one of its margins is red, whatever its other questions show. A limit may be asked by a test of
    its own, so it is open until it is answered, and closes nothing else; more epochs are of no use to one that the
    design has too few connections for.
    """
    limits = [answer for question, answer in answers.items() if not question.compares]
    if any(answer.verdict is Verdict.INCONCLUSIVE and "too_few_connections" not in answer.reasons for answer in limits):
        return True
    answers = {question: answer for question, answer in answers.items() if question.compares}
    beside = [answer.verdict for question, answer in answers.items() if question.beside]
    others = [answer.verdict for question, answer in answers.items() if not question.beside]
    if Verdict.EXCEEDS in beside:
        return False
    open_beside = Verdict.INCONCLUSIVE in beside and any(verdict is not Verdict.EXCEEDS for verdict in others)
    return Verdict.INCONCLUSIVE in others or open_beside
