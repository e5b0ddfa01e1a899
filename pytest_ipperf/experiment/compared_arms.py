"""Tell the arms that are compared with the reference from those of which only limits are asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.design.question import Question

Asked = Mapping[Arm, Collection[Question]]


def compares(arm: Arm, reference: Arm, asked: Asked) -> bool:
    """Return whether an arm is compared with the reference; it is if nothing is asked of it."""
    questions = asked.get(arm, ())
    return arm != reference and (not questions or any(question.compares for question in questions))


def reference_of(plan: Plan, reference: Arm, asked: Asked) -> Arm | None:
    """Return the reference of a plan; None if no arm is compared with it, so that it is an arm as the others are."""
    return reference if any(compares(arm, reference, asked) for arm in plan.arms) else None
