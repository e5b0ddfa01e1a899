"""Measure the flagged arms of a workload again in fresh epochs, if the session confirms what exceeds a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_ipperf.core.design.cell import Arm, Cell
from pytest_ipperf.core.design.plan import Plan, confirming_plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.confirmation import confirmation_level
from pytest_ipperf.core.portable.errors import IpperfError, UsageError
from pytest_ipperf.experiment import Answer, Conditions, FreshEpochs, Measurement, flagged, measure
from pytest_ipperf.experiment.compared_arms import Asked, compares
from pytest_ipperf.plugin.display.progress import Progress
from pytest_ipperf.plugin.session.journal import log_complete, log_taken
from pytest_ipperf.plugin.session.session import Session

_NOT_STATED = "neither a marker nor --margin states this margin, so that none were measured for it"


def fresh_epochs_of(
    session: Session, cell: Cell, questions: Sequence[Question], measurement: Measurement, conditions: Conditions
) -> FreshEpochs | None:
    """Return the fresh epochs that decide a cell; None if the session measures none.

    At the first call, the arms of the workload that are flagged by the questions known at collection are measured
    together with the reference. `questions` are those of the cell's item, which its own fixture `margin` may have
    changed: an arm that they alone flag is measured in a further set.
    """
    if not session.confirms:
        return None
    workload = cell.workload
    is_first = workload not in session.fresh_epochs
    sets = session.fresh_epochs.setdefault(workload, [])
    for each in sets:
        if cell.arm in each.arms:  # no second set: the level is spent once for each answer
            return each
    asked = session.questions_of(workload)
    own = {cell.arm: tuple(dict.fromkeys((*asked.get(cell.arm, ()), *questions)))}
    asked = {**asked, **own} if is_first else own
    arms = flagged(measurement, conditions, asked)
    fresh = _measure(session, measurement, conditions, asked, arms, number=len(sets) + 1)
    if arms:
        sets.append(fresh)
    return fresh


def answer_again(session: Session, cell: Cell, question: Question | None, fresh: FreshEpochs | None) -> Answer:
    """Return the answer of fresh epochs, with records that name their source and the session's seed."""
    if fresh is None or question is None:
        raise ValueError(f"{cell} has no fresh epochs")
    found, origin = fresh.answer(cell, question), session.fresh_from.get(fresh.name, "")
    records = (replace(record, seed=session.settings.seed, taken_from=origin) for record in found.records)
    return replace(found, records=tuple(records))


def _measure(
    session: Session,
    measurement: Measurement,
    conditions: Conditions,
    asked: Asked,
    arms: tuple[Arm, ...],
    *,
    number: int,
) -> FreshEpochs:
    design, workload = conditions.design, measurement.plan.workload
    conditions = replace(conditions, design=design.confirming())
    level = confirmation_level(session.answers)
    none = FreshEpochs(arms=arms, measurement=None, conditions=conditions, level=level, refused=_NOT_STATED)
    if not arms:
        return none
    pairs = [(arm, workload.reference(arm, conditions.reference)) for arm in arms]
    needed = {*arms, *(reference for arm, reference in pairs if compares(arm, reference, asked))}
    plan = confirming_plan(workload, sorted(needed), design, session.settings.seed, number)
    why_anew = ""
    try:
        if reused := _reuse(session, plan, conditions):
            return replace(none, measurement=reused)
    except UsageError as error:
        why_anew = str(error)
    # As if an epoch with more blocks took longer in proportion, which is a little too much.
    needed_s = measurement.seconds[0] / measurement.plan.first_runs * plan.runs
    if refusal := session.budget_refuses("measuring it again", needed_s):
        return replace(none, refused=refusal)
    try:
        progress = Progress.of(session, plan, conditions.state)
        if why_anew:
            progress.note(f"the fresh epochs of {workload} are not reused: {why_anew}")
        testbed = session.settings.inventory[workload.testbed]
        fresh = measure(plan, testbed, conditions, progress, asked={arm: asked[arm] for arm in arms})
        log_complete(session, fresh, conditions.state)
    except IpperfError as error:
        return replace(none, error=error)
    return replace(none, measurement=fresh)


def _reuse(session: Session, plan: Plan, conditions: Conditions) -> Measurement | None:
    """Return the fresh epochs of the resumed session; raise UsageError if they cannot be used."""
    # Only with the first epochs whose excess they confirm.
    if session.resumed is None or not session.reused_from(plan.workload):
        return None
    found = session.resumed.reuse_fresh(plan, conditions.state, conditions.deadline_s, session.settings)
    if found is None:
        return None
    measurement, kept = found
    log_taken(session, plan.name, kept.folder)
    session.fresh_from[plan.name] = kept.name
    return measurement
