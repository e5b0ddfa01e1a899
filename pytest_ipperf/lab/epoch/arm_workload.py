"""The workload as one arm measures it."""

from __future__ import annotations

from dataclasses import replace

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.protocols import PROTOCOLS


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
