"""Effects and limits of an arm at each look, by the values by which a question judges the runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.metric import Location
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.interim_analysis import effects_at, judgements
from pytest_ipperf.core.inference.limit import LimitJudgement, judge_limit_looks
from pytest_ipperf.core.inference.verdict import Judgement
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.experiment.measurement import Conditions
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.metrics.base import LookFacts
from pytest_ipperf.protocols import PROTOCOLS

CONFIDENCE = 0.95


def effects_of(
    runs: Sequence[Run],
    arm: Arm,
    reference: Arm,
    question: Question,
    ends: Iterable[int],
    *,
    deadline_s: float,
    header_cost: float = 0.0,
    location: Location | None = None,
) -> tuple[Effect, ...]:
    """Return the effect that answers `question` at each look; `ends` holds the number of epochs at each look.

    `location` summarises the blocks of an epoch if that is not to be the metric's own. Raises InvalidError as `compare`
    does.
    """
    measure = METRICS[question.metric]
    metric = measure.metric if location is None else replace(measure.metric, location=location)
    facts = LookFacts(reference=reference, margin=question.margin, deadline_s=deadline_s, tail=question.tail)
    at_look = measure.at_look
    return effects_at(
        runs,
        arm,
        reference,
        metric,
        ends,
        confidence=CONFIDENCE,
        header_cost=header_cost,
        at_look=None if at_look is None else lambda counted: at_look(counted, facts),
    )


def judged_limit(
    runs: Sequence[Run], arm: Arm, limit: Limit, ends: Sequence[int], *, workload: Workload, design: Design
) -> LimitJudgement:
    """Return the judgement of an arm's limit by the first look that decides; `ends` holds the epochs of each look.

    A mean is that of the protocol's first metric. Raises InvalidError as `judge_limit` does.
    """
    quantity = PROTOCOLS[workload.protocol].metrics[0]
    return judge_limit_looks(runs, arm, limit, ends, quantity=quantity, alpha=design.alpha, looks=design.looks)


def answers_at(
    runs: Sequence[Run],
    arm: Arm,
    asked: Collection[Question],
    ends: Sequence[int],
    *,
    workload: Workload,
    conditions: Conditions,
    header_cost: float,
) -> tuple[dict[Question, Judgement], list[InvalidError]]:
    """Return the answers of the looks so far to the questions about an arm, and why others cannot be answered."""
    design, deadline_s = conditions.design, conditions.deadline_s

    def effects(question: Question) -> Sequence[Effect]:
        reference = workload.reference(arm, conditions.reference)
        return effects_of(runs, arm, reference, question, ends, deadline_s=deadline_s, header_cost=header_cost)

    found: dict[Question, Judgement] = {}
    failed: list[InvalidError] = []
    for question in asked:
        try:
            if question.limit is not None:
                found[question] = judged_limit(runs, arm, question.limit, ends, workload=workload, design=design)
            else:
                found |= judgements(effects, [question], alpha=design.alpha, looks=design.looks)
        except InvalidError as error:  # more epochs do not repair this metric; others may still have an answer
            failed.append(error)
    return found, failed
