"""A plan: which arm is measured when, decided by the seed before anything runs.

Arms stand in random order inside every block. Measuring all of one arm first and all of the other afterwards would
turn any drift of the testbed into a difference of the arms (docs/statistics.md has the figures).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.cell import Arm, Workload
from pytest_ipperf.core.design import Design


@dataclass(frozen=True, slots=True)
class Epoch:
    """One life of the testbed's state: a warm-up of every arm, then the blocks."""

    number: int
    warmups: tuple[Arm, ...]
    blocks: tuple[tuple[Arm, ...], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole order of one workload."""

    workload: Workload
    arms: tuple[Arm, ...]
    seed: int
    epochs: tuple[Epoch, ...]

    @property
    def runs(self) -> int:
        """Runs in all, warm-ups included."""
        return sum(len(epoch.warmups) + sum(map(len, epoch.blocks)) for epoch in self.epochs)


def plan_for(workload: Workload, arms: Sequence[Arm], design: Design, seed: int) -> Plan:
    """The order that `seed` gives this workload; the same arguments give the same plan on every machine."""
    rng = random.Random(f"{seed}/{workload}")  # noqa: S311 - an experiment's order, not a secret
    arms = sorted(arms)

    def shuffled() -> tuple[Arm, ...]:
        return tuple(rng.sample(arms, len(arms)))

    epochs = tuple(
        Epoch(number, shuffled(), tuple(shuffled() for _ in range(design.blocks))) for number in range(design.epochs)
    )
    return Plan(workload, tuple(arms), seed, epochs)
