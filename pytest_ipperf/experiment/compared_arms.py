"""Tell which arms are compared with which, and of which only limits are asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.design.question import Question

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
