"""A plan: the order in which arms are measured, fixed by the seed before anything runs.

Arms stand in random order in every block. Measuring all of one arm first and all of the other afterwards would turn any
drift of the testbed into a difference between the arms (docs/statistics.md has the figures).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import Design


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch between rebuilds of the testbed: a warm-up of every arm, then the blocks."""

    number: int
    warmups: tuple[Arm, ...]
    blocks: tuple[tuple[Arm, ...], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The complete order of one workload: the `epochs` of all its `looks`.

    An arm decided at a look is left out of later epochs; the others keep their order.
    """

    workload: Workload
    arms: tuple[Arm, ...]
    seed: int
    epochs: tuple[Epoch, ...]
    looks: int = 1

    def look(self, number: int) -> tuple[Epoch, ...]:
        """Return the epochs measured for one look; looks count from 0."""
        each = len(self.epochs) // self.looks
        return self.epochs[number * each : (number + 1) * each]

    def epochs_by(self, looks: int) -> int:
        """Return the number of epochs measured once `looks` looks have been taken."""
        return looks * len(self.epochs) // self.looks

    @property
    def runs(self) -> int:
        """Maximum number of runs, including warm-ups."""
        return self.runs_of(self.epochs, self.arms)

    @property
    def first_runs(self) -> int:
        """Number of runs up to the first look."""
        return self.runs_of(self.look(0), self.arms)

    @staticmethod
    def runs_of(epochs: Sequence[Epoch], arms: Collection[Arm]) -> int:
        """Return the number of runs in `epochs` if only `arms` are measured."""
        return sum(arm in arms for epoch in epochs for block in (epoch.warmups, *epoch.blocks) for arm in block)


def plan_for(workload: Workload, arms: Sequence[Arm], design: Design, seed: int) -> Plan:
    """Return the order that `seed` gives this workload; equal arguments give equal plans on every machine."""
    rng = random.Random(f"{seed}/{workload}")  # noqa: S311 - an experiment's order, not a secret
    arms = sorted(arms)

    def shuffled() -> tuple[Arm, ...]:
        return tuple(rng.sample(arms, len(arms)))

    epochs = tuple(
        Epoch(number, shuffled(), tuple(shuffled() for _ in range(design.blocks)))
        for number in range(design.most_epochs)
    )
    return Plan(workload, tuple(arms), seed, epochs, design.looks)
