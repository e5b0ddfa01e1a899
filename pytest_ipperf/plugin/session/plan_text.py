"""Plans and questions of a workload as plain data, which the journal keeps and a later session compares."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import Epoch, Plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.core.records.workload_version import models_digest
from pytest_ipperf.lab.runs.modelled_traffic import model_names


def plan_data(plan: Plan) -> list[dict[str, Any]]:
    """Return the arms of a plan in the order in which they are measured."""
    return [_epoch_data(epoch) for epoch in plan.epochs]


def _epoch_data(epoch: Epoch) -> dict[str, Any]:
    order = {
        "epoch": epoch.number,
        "warmups": _names(epoch.warmups),
        "blocks": [_names(block) for block in epoch.blocks],
    }
    return order if epoch.together == 1 else {**order, "together": epoch.together}


def plan_from_data(base: Plan, order: Sequence[Mapping[str, Any]], number: int) -> Plan:
    """Return the plan of the set of fresh epochs of that number, for the workload of `base`, from its `plan_data`."""
    epochs = tuple(
        Epoch(
            each["epoch"],
            _arms(each["warmups"]),
            tuple(_arms(block) for block in each["blocks"]),
            each.get("together", 1),
        )
        for each in order
    )
    return Plan(base.workload, tuple(sorted(set(epochs[0].warmups))), base.seed, epochs, confirms=number)


def _arms(names: Collection[str]) -> tuple[Arm, ...]:
    return tuple(map(Arm.parse, names))


def _names(arms: Collection[Arm]) -> list[str]:
    return [str(arm) for arm in arms]


def model_digests(plan: Plan, models: Mapping[str, TrafficModel]) -> dict[str, str]:
    """Return the digests of the traffic models that a plan measures, by name."""
    return {name: models_digest([models[name]]) for name in model_names(plan.workload, plan.arms)}


def question_texts(asked: Mapping[Arm, Collection[Question]]) -> dict[str, list[str]]:
    """Return the metrics and margins that the tests ask of each arm."""
    return {str(arm): sorted(map(str, questions)) for arm, questions in sorted(asked.items())}
