"""Set up the fixture `measured` of an item; each workload is measured once, however many items share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from pytest_ipperf.core.design.cell import Cell
from pytest_ipperf.core.design.limit import FIGURES, Limit
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import SLOW_SHARE, Question
from pytest_ipperf.core.inference.claim import Claim, Slowdown
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.figure import Figure
from pytest_ipperf.core.inference.limit import LimitJudgement
from pytest_ipperf.core.inference.verdict import Judgement
from pytest_ipperf.core.measurement.arm_samples import ArmSamples
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError, IpperfError, UndecidedError, UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import Interval
from pytest_ipperf.experiment import (
    Answer,
    Conditions,
    KeptRuns,
    Measurement,
    answer,
    answer_alone,
    epoch_s,
    limit_of,
    measure,
    tail_of,
)
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.collect.limits_alone import is_alone
from pytest_ipperf.plugin.collect.questions import (
    check_deadline,
    explicit_failures,
    explicit_margin,
    figures_of,
    limits_of,
    metric_of,
    no_figure,
    question_with_margin,
    questions_beside,
)
from pytest_ipperf.plugin.display.progress import Progress
from pytest_ipperf.plugin.measure.answers import Answers
from pytest_ipperf.plugin.measure.fresh_epochs import answer_again, fresh_epochs_of
from pytest_ipperf.plugin.measure.provisioning_teardown import PROVISIONING_TEARDOWN
from pytest_ipperf.plugin.measure.release import reload
from pytest_ipperf.plugin.measure.stash import ANSWERS, IN_CALL, INVALID, answers_of
from pytest_ipperf.plugin.options.aliases import spell_options
from pytest_ipperf.plugin.session.journal import log_complete, log_not_resumed
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.protocols import PROTOCOLS


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measured:
    """The measurement of a cell, as the test receives it.

    The question is `slowdown <= margin`, or the same as `increase <= margin`, a name that suits jitter and loss.
    `tail <= margin` asks whether no more connections than in the reference are slower than its 99th percentile by more
    than the margin.
    `p50`, `p95`, `p99`, `p999`, `mean`, `failed_share` and `throughput` are figures of the arm, to be compared with
    limits: `p95 <= "20ms"`. `arm` and `reference` hold what was measured of each side; a test of limits
    alone has a reference without runs.
    `metric` is the quantity, `effect` the effect in all data (None if the design has one epoch), `failures` the
    difference of the failed shares in percentage points, and `runs` all runs, warm-ups included. All are of the fresh
    epochs if these decide.
    """

    cell: Cell
    metric: str
    slowdown: RecordedSlowdown
    tail: RecordedTail
    effect: Effect | None
    failures: Interval | None
    runs: tuple[Run, ...]
    arm: ArmSamples
    p50: Figure
    p95: Figure
    p99: Figure
    p999: Figure
    mean: Figure
    failed_share: Figure
    throughput: Figure
    reference: ArmSamples

    @property
    def increase(self) -> RecordedSlowdown:
        """Change for the worse from the reference to the arm; the same as `slowdown`."""
        return self.slowdown

    def __repr__(self) -> str:
        return f"<measured {self.cell}>"  # pytest prints it above every failure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedSlowdown(Slowdown):
    """A slow-down that stores every claim made about it on its item, so that the record holds the question.

    `again` returns the answer of the fresh epochs, for a claim that these decide.
    """

    item: pytest.Item = field(repr=False)
    records: tuple[Record, ...] = field(repr=False)
    again: Callable[[], Answer] = field(repr=False)

    def __le__(self, margin: Margin | str) -> Claim:
        claim = Slowdown.__le__(self, margin)
        answers_of(self.item).add_record(self.judged_record(claim), asked=False)
        return claim

    def judged_record(self, claim: Claim) -> Record:
        """Return the record of the epochs by which a claim was judged, with its answer."""
        judgement = claim.judgement
        record = self.again().records[-1] if judgement.first else self.records[judgement.look - 1]
        return record.judged(claim)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RecordedTail:
    """The slow connections of a cell, ready to be compared with a margin beyond the reference's tail.

    Every claim becomes a component of the item's record. `failures` is the margin of the share of slow connections.
    """

    item: pytest.Item
    of: Callable[[Question], Slowdown]
    failures: Margin | None
    confirm: Callable[[Question, Judgement], Judgement] | None

    def __le__(self, margin: Margin | str) -> Claim:
        tail = Margin.parse(margin) if isinstance(margin, str) else margin
        if not isinstance(tail, Margin):
            raise UsageError(f"a tail is compared with a margin such as '10%,0.5ms', not with {margin!r}")
        if self.failures is None:
            raise UsageError("a tail is asked of connections; this protocol sends flows, which have none")
        tail.check(METRICS["response_time"].metric)
        question = Question(SLOW_SHARE, self.failures, tail)
        slowdown = replace(self.of(question), confirm=self.confirm and partial(self.confirm, question))
        claim = Claim(slowdown.judged(self.failures))
        answers_of(self.item).add_component("tail", str(tail), claim.judgement, asked=False)
        return claim

    def __bool__(self) -> bool:
        """Raise UsageError: a tail alone is no question."""
        raise UsageError("a tail alone compares nothing; use `measured.tail <= '10%,0.5ms'`")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """The limits of a cell's arm: those `asked` by marker or option are judged at the looks, whatever the test does."""

    item: pytest.Item
    protocol: str
    asked: Sequence[Limit]
    judged: Callable[[Limit, bool], LimitJudgement]

    def figure(self, name: str) -> Figure:
        """Return a figure whose claims become components of the item's record."""
        return Figure(name, self._claim)

    def judge_asked(self) -> None:
        """Judge the limits that were asked by marker or option."""
        for limit in self.asked:
            judgement = self.judged(limit, True)  # noqa: FBT003 - at the looks
            answers_of(self.item).add_component(limit.figure, limit.name, judgement, asked=True)

    def _claim(self, limit: Limit) -> Claim:
        if limit.figure not in figures_of(self.protocol):
            raise UsageError(f"limit {limit.name}: {no_figure(limit.figure, self.protocol)}")
        check_deadline(limit, self.item.config.stash[SESSION].settings.deadline_s)
        claim = Claim(self.judged(limit, limit in self.asked))
        answers_of(self.item).add_component(limit.figure, limit.name, claim.judgement, asked=False)
        return claim


def _failures(beside: Sequence[Question]) -> Margin | None:
    return beside[0].margin if beside else None


def measured_cell(item: pytest.Item, session: Session, cell: Cell, margin: object, state: ServerState) -> Measured:
    """Return a cell's part of its workload's measurement, which is made at the first call.

    An error fails the set-up with its message alone.
    """
    try:
        return _measured_cell(item, session, cell, margin, state)
    except UndecidedError:
        raise
    except IpperfError as error:
        sentence = str(error)
        item.stash[INVALID] = isinstance(error, InvalidError)
    # Outside the `except` block, so that no chain of exceptions is printed.
    pytest.fail(spell_options(session.config, sentence), pytrace=False)


def _measured_cell(item: pytest.Item, session: Session, cell: Cell, margin: object, state: ServerState) -> Measured:
    protocol, alone = cell.workload.protocol, is_alone(item)
    question = None if alone else question_with_margin(item, protocol, margin)
    _check_state(session, cell, state)
    conditions = _conditions(session, cell, state)
    measurement = _measurement(session, cell, conditions)
    beside: tuple[Question, ...] = () if question is None else questions_beside(item, protocol)
    limits_asked = limits_of(item, protocol)
    questions = [*([question, *beside] if question else []), *map(Question.about, limits_asked)]
    fresh = fresh_epochs_of(session, cell, questions, measurement, conditions)
    confirm = None if fresh is None else partial(fresh.judged, cell)
    if question is None:
        found = answer_alone(measurement, cell, conditions, metric_of(item, protocol))
    else:
        found = answer(measurement, cell, conditions, question, beside, confirm=confirm)
    origin, design = session.reused_from(cell.workload), conditions.design
    asked = explicit_failures(item)
    records = tuple(replace(each, taken_from=origin).beside(found.beside, asked=asked) for each in found.records)
    answers = item.stash[ANSWERS] = Answers(records[-1])
    if IN_CALL in item.stash:  # another plugin runs the item again
        del item.stash[IN_CALL]
    slowdown = RecordedSlowdown(
        effects=found.effects,
        judges=design.judges,
        design=design.name,
        alpha=design.alpha,
        looks=design.looks,
        stopped=found.stopped,
        doubts=found.doubts,
        epoch_s=epoch_s(measurement, design),
        beside=found.beside,
        effects_for=found.effects_for,
        confirm=None if confirm is None or question is None else partial(confirm, question),
        item=item,
        records=records,
        again=partial(answer_again, session, cell, question, fresh),
    )
    if question is not None and explicit_margin(item):  # judged whether or not the test does so
        answers.add_record(slowdown.judged_record(Slowdown.__le__(slowdown, question.margin)), asked=True)
    if question is not None and confirm and slowdown.judged(question.margin).first:
        found = slowdown.again()
    judged = limit_of(measurement, cell, conditions)
    if fresh is not None:
        judged = fresh.confirming_limits(cell, judged)
    limits = _Limits(item=item, protocol=protocol, asked=limits_asked, judged=judged)
    limits.judge_asked()
    metric = records[-1].metric
    reference = cell.reference(conditions.reference)
    sides = {
        arm: ArmSamples(arm=arm, metric=metric, runs=[run for run in found.runs if run.arm == arm and not run.warmup])
        for arm in (cell.arm, reference)
    }
    return Measured(
        cell=cell,
        metric=metric,
        slowdown=slowdown,
        tail=RecordedTail(
            item=item, of=tail_of(measurement, cell, conditions), failures=_failures(beside), confirm=confirm
        ),
        effect=found.effects[-1] if found.effects else None,
        failures=found.failures,
        runs=found.runs,
        arm=sides[cell.arm],
        reference=replace(sides[reference], runs=()) if alone else sides[reference],
        **{name: limits.figure(name) for name in FIGURES},
    )


def _check_state(session: Session, cell: Cell, state: ServerState) -> None:
    """Raise UsageError if a suite's server state does not fit the cell, or differs between cells of a workload."""
    workload, has = cell.workload, len(state.content)
    if state.content and has != workload.payload_bytes:
        raise UsageError(
            f"{cell}: the content of server_state has {has} bytes, not the payload's {workload.payload_bytes}; "
            f"mark the test levels(payload=[{has}])"
        )
    try:
        PROTOCOLS[workload.protocol].filled(state, workload.payload_bytes)
    except UsageError as error:  # checked before anything is started
        raise UsageError(f"{cell}: {error}") from None
    if session.states.setdefault(workload, state.digest) != state.digest:
        raise UsageError(
            f"{cell}: another test of this workload wants another server_state; give the two different payloads, or "
            "measure them in two sessions"
        )


def _conditions(session: Session, cell: Cell, state: ServerState) -> Conditions:
    settings = session.settings
    return Conditions(
        design=session.design_of(cell.workload),
        reference=settings.reference,
        server=settings.server,
        deadline_s=settings.deadline_s,
        owner=session.owner,
        wait_s=settings.wait_s,
        state=state,
        provisioning=session.config.stash[PROVISIONING_TEARDOWN].provisioning(),
        backend=settings.backend,
        capture=settings.capture,
        reboot=settings.reboot,
        models=settings.models,
    )


def _measurement(session: Session, cell: Cell, conditions: Conditions) -> Measurement:
    result = session.results.get(cell.workload)
    if result is None:
        plan = session.plan_of(cell.workload)
        if session.is_released(cell.workload) and not session.reused_from(cell.workload):
            result = reload(session, plan, conditions.state, conditions.deadline_s)
        else:
            result = _measure(session, cell, conditions)
            session.note_measured(plan)
        session.results[cell.workload] = result
    if isinstance(result, IpperfError):
        raise result
    return result


def _measure(session: Session, cell: Cell, conditions: Conditions) -> Measurement | IpperfError:
    plan, testbed = session.plan_of(cell.workload), session.settings.inventory[cell.workload.testbed]
    if session.resumed and (reused := session.resumed.reuse(plan, conditions.state, conditions.deadline_s)):
        return reused
    begun = session.resumed.go_on(plan, conditions.state, conditions.deadline_s) if session.resumed else None
    what = "it" if plan.looks == 1 else "its first look"
    if refusal := session.budget_refuses(what, session.forecast_s(plan)):
        return UndecidedError(f"not measured: {refusal}")
    try:
        log_not_resumed(session, cell.workload)
        progress, kept = Progress.of(session, plan, conditions.state), KeptRuns()
        if begun:
            kept, found, earlier = begun
            progress.keep(found, earlier)
        measurement = measure(
            plan,
            testbed,
            conditions,
            progress,
            asked=session.questions_of(cell.workload),
            refuses=partial(session.budget_refuses, "the next look"),
            kept=kept,
        )
        log_complete(session, measurement, conditions.state)
    except IpperfError as error:
        return error
    session.remember_s(plan, measurement.seconds[0])
    return measurement
