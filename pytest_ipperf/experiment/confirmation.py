"""Fresh epochs of the arms that seemed beyond a margin: which arms need them, and what they show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from pytest_ipperf.core.design.cell import Arm, Cell
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.claim import Slowdown
from pytest_ipperf.core.inference.confirmation import Confirmation
from pytest_ipperf.core.inference.limit import LimitJudgement
from pytest_ipperf.core.inference.verdict import Judgement, Verdict
from pytest_ipperf.core.portable.errors import InvalidError, IpperfError, LabError
from pytest_ipperf.experiment.answer import Answer, answer, epoch_s, limit_of
from pytest_ipperf.experiment.doubts import doubts_about
from pytest_ipperf.experiment.looks import effects_of
from pytest_ipperf.experiment.measurement import Conditions, Measurement
from pytest_ipperf.lab.runs.link_rate import arms_header_cost

LimitJudge = Callable[[Limit, bool], LimitJudgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshEpochs:
    """A set of fresh epochs of a workload, measured under `conditions`.

    `arms` are the flagged ones. `measurement` is None if there are none, or none could be measured: because of `error`,
    else for the reason `refused`, which also concerns every other arm. `level` is the one-sided level at which an
    excess is confirmed.
    """

    arms: tuple[Arm, ...]
    measurement: Measurement | None
    conditions: Conditions
    level: float
    refused: str
    error: IpperfError | None = None

    @property
    def name(self) -> str:
        """Name under which the event log keeps them; empty if there are none."""
        return self.measurement.plan.name if self.measurement else ""

    def judged(self, cell: Cell, question: Question, first: Judgement) -> Judgement:
        """Return the judgement of fresh epochs for a question about a cell that seemed beyond its margin.

        Raises the error that ended the measurement of the cell's fresh epochs, or InvalidError if they are not valid.
        """
        alpha, measurement = self.conditions.design.alpha, self._of(cell)
        if measurement is None:
            return Confirmation(effect=None, level=self.level, alpha=alpha, refused=self.refused).judged(first)
        if not question.beside:  # the test may state another margin, on which the judged values depend
            question = replace(question, margin=first.margin)
        confirmation = Confirmation(
            effect=_slowdown(measurement, cell, self.conditions, question).effects[-1],
            level=self.level,
            alpha=alpha,
            doubts=_doubts(measurement, cell, self.conditions, question),
            epoch_s=epoch_s(measurement, self.conditions.design),
        )
        judgement = confirmation.judged(first)
        if judgement.verdict is Verdict.INVALID:
            raise InvalidError(f"{cell}: {judgement.sentence()}")
        return judgement

    def _of(self, cell: Cell) -> Measurement | None:
        """Return the fresh epochs of a cell, None if it has none; raise the error that ended their measurement."""
        if self.error is not None and cell.arm in self.arms:
            raise _of_fresh_epochs(self.error)
        if self.measurement is None or cell.arm not in self.arms:
            return None
        if cell.arm in self.measurement.trouble:
            raise _of_fresh_epochs(self.measurement.trouble[cell.arm])
        return self.measurement

    def confirming_limits(self, cell: Cell, judged: LimitJudge) -> LimitJudge:
        """Return a function that judges limits as `judged` does, and confirms those that seem exceeded."""

        def confirmed(limit: Limit, at_looks: bool) -> LimitJudgement:  # noqa: FBT001 - as `judged`
            first = judged(limit, at_looks)
            return self._limit(cell, limit, first) if first.verdict is Verdict.EXCEEDS else first

        return confirmed

    def _limit(self, cell: Cell, limit: Limit, first: LimitJudgement) -> LimitJudgement:
        measurement, design = self._of(cell), self.conditions.design
        if measurement is None:
            why = f"not confirmed in fresh epochs: {self.refused}"
            return replace(first, verdict=Verdict.INCONCLUSIVE, reasons=("unconfirmed",), doubt=why)
        stricter = replace(self.conditions, design=replace(design, alpha=self.level))
        excess = limit_of(measurement, cell, stricter)(limit, True)  # noqa: FBT003 - at the only look
        fresh = limit_of(measurement, cell, self.conditions)(limit, True)  # noqa: FBT003 - see above
        if excess.verdict is Verdict.EXCEEDS:
            fresh = excess
        elif fresh.verdict is not Verdict.WITHIN:
            fresh = replace(fresh, verdict=Verdict.INCONCLUSIVE, reasons=fresh.reasons or ("straddles",))
        return replace(fresh, first=first, alpha=design.alpha, exceeds_alpha=self.level)

    def answer(self, cell: Cell, question: Question) -> Answer:
        """Return the answer of the fresh epochs for a cell; raises as `answer`, ValueError if there are none."""
        if self.measurement is None:
            raise ValueError(f"{cell} has no fresh epochs")
        return answer(self.measurement, cell, self.conditions, question)


def _of_fresh_epochs(error: IpperfError) -> IpperfError:
    """Return the error with what was being measured; an invalid measurement stays one."""
    text = f"a margin seemed exceeded, and its fresh epochs failed: {error}"
    return InvalidError(text) if isinstance(error, InvalidError) else LabError(text)


def flagged(
    measurement: Measurement, conditions: Conditions, asked: Mapping[Arm, Collection[Question]]
) -> tuple[Arm, ...]:
    """Return the arms for which the answer to one of their questions in `asked` exceeds its margin."""
    return tuple(arm for arm in measurement.plan.arms if _exceeds(measurement, conditions, arm, asked.get(arm, ())))


def _exceeds(measurement: Measurement, conditions: Conditions, arm: Arm, questions: Collection[Question]) -> bool:
    if arm in measurement.trouble:
        return False
    cell = Cell(measurement.plan.workload, arm)
    return any(verdict is Verdict.EXCEEDS for verdict in _verdicts(measurement, conditions, cell, questions))


def _verdicts(
    measurement: Measurement, conditions: Conditions, cell: Cell, questions: Collection[Question]
) -> Iterator[Verdict]:
    for question in questions:
        with contextlib.suppress(InvalidError):  # raised again where the item asks for its answer
            if question.limit is not None:
                yield limit_of(measurement, cell, conditions)(question.limit, True).verdict  # noqa: FBT003 - at looks
                continue
            yield _slowdown(measurement, cell, conditions, question).judged(question.margin).verdict


def _slowdown(measurement: Measurement, cell: Cell, conditions: Conditions, question: Question) -> Slowdown:
    design, plan = conditions.design, measurement.plan
    pair = (cell.arm, cell.reference(conditions.reference))
    effects = effects_of(
        measurement.runs,
        *pair,
        question,
        [plan.epochs_by(look) for look in range(1, measurement.looks[cell.arm] + 1)],
        deadline_s=conditions.deadline_s,
        header_cost=0.0 if question.beside else arms_header_cost(measurement.network.links, *pair, plan.workload),
    )
    return Slowdown(
        effects=effects,
        judges=design.judges,
        design=design.name,
        alpha=design.alpha,
        looks=design.looks,
        doubts=lambda margin: _doubts(measurement, cell, conditions, replace(question, margin=margin)),
    )


def _doubts(measurement: Measurement, cell: Cell, conditions: Conditions, question: Question) -> Mapping[Verdict, str]:
    if question.beside:
        return {}
    epochs = measurement.plan.epochs_by(measurement.looks[cell.arm])
    runs = [run for run in measurement.runs if run.epoch < epochs]
    return doubts_about(measurement, runs, cell, conditions, question)
