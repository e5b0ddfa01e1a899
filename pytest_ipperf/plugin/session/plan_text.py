"""What is asked of a workload, in the plain form in which the journal keeps it and a later session compares it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.design.question import Question


def order_of(plan: Plan) -> list[dict[str, Any]]:
    """Which arm is measured when."""
    return [
        {"epoch": epoch.number, "warmups": _names(epoch.warmups), "blocks": [_names(block) for block in epoch.blocks]}
        for epoch in plan.epochs
    ]


def _names(arms: Collection[Arm]) -> list[str]:
    return [str(arm) for arm in arms]


def asked_texts(asked: Mapping[Arm, Collection[Question]]) -> dict[str, list[str]]:
    """What the tests ask of each arm: metrics and margins."""
    return {str(arm): sorted(map(str, questions)) for arm, questions in sorted(asked.items())}
