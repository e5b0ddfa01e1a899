"""Tell which arms are compared with which, and of which only limits are asked; and what an arm measures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.protocols import PROTOCOLS

Asked = Mapping[Arm, Collection[Question]]


def compares(arm: Arm, reference: Arm, asked: Asked) -> bool:
    """Return whether an arm is compared with its reference; it is if nothing is asked of it."""
    questions = asked.get(arm, ())
    return arm != reference and (not questions or any(question.compares for question in questions))


def references_of(plan: Plan, chosen: Arm, asked: Asked) -> frozenset[Arm]:
    """Return the references of a plan's arms; none if no arm is compared, so that all are arms as the others are.

    `chosen` is the session's reference. Where a factor is compared, each arm has the reference of its own IP version
    and transport.
    """
    pairs = ((arm, plan.workload.reference(arm, chosen)) for arm in plan.arms)
    return frozenset(reference for arm, reference in pairs if compares(arm, reference, asked))


def workload_of(workload: Workload, arm: Arm) -> Workload:
    """Return the workload as `arm` measures it: with the arm's level of the compared factor, if there is one."""
    if not arm.level:
        return workload
    name, _, text = arm.level.partition("_")
    factors = PROTOCOLS[workload.protocol].factors
    levels = {level.name: level for level in workload.levels}
    found = next(factor for factor in factors if factor.name == name)
    levels[name] = found.level(found.parse(text))
    return replace(workload, levels=tuple(levels[each.name] for each in factors if each.name in levels), against="")
