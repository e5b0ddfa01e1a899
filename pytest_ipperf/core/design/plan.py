"""A plan: the order in which arms are measured, fixed by the seed before anything runs.

Arms stand in random order in every block. Measuring all of one arm first and all of the other afterwards would turn any
drift of the testbed into a difference between the arms (docs/statistics.md has the figures).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import Design

WARMUP = -1
"""Block number of an epoch's warm-up runs."""
CONFIRMING = "-confirm"
"""Suffix of a workload's text that names its fresh epochs; those of further sets have a number after it."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch between rebuilds of the testbed: a warm-up of every arm, then the blocks.

    The runs of an arm in `together` blocks follow each other.
    """

    number: int
    warmups: tuple[Arm, ...]
    blocks: tuple[tuple[Arm, ...], ...]
    together: int = 1

    def places(self) -> Iterator[tuple[int, int, Arm]]:
        """Yield block, slot and arm of each run in the order of measurement; the block of warm-ups is `WARMUP`."""
        for slot, arm in enumerate(self.warmups):
            yield WARMUP, slot, arm
        for first in range(0, len(self.blocks), self.together):
            for slot, arm in enumerate(self.blocks[first]):
                for block in range(first, min(first + self.together, len(self.blocks))):
                    yield block, slot, arm


@dataclass(frozen=True, slots=True)
class Plan:
    """The complete order of one workload: the `epochs` of all its `looks`.

    An arm decided at a look is left out of later epochs; the others keep their order. `confirms` is not 0 for fresh
    epochs that confirm what another plan of the same workload found: the number of their set, from 1 on.
    """

    workload: Workload
    arms: tuple[Arm, ...]
    seed: int
    epochs: tuple[Epoch, ...]
    looks: int = 1
    confirms: int = 0

    @property
    def name(self) -> str:
        """Name under which the event log keeps what is measured by the plan."""
        return f"{self.workload}{_suffix(self.confirms) if self.confirms else ''}"

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
        return _runs(self.epochs)

    @property
    def first_runs(self) -> int:
        """Number of runs up to the first look."""
        return _runs(self.look(0))

    @staticmethod
    def runs_of(epochs: Sequence[Epoch], arms: Collection[Arm]) -> int:
        """Return the number of runs in `epochs` if only `arms` are measured."""
        return sum(arm in arms for epoch in epochs for block in (epoch.warmups, *epoch.blocks) for arm in block)


def _runs(epochs: Sequence[Epoch]) -> int:
    return sum(len(block) for epoch in epochs for block in (epoch.warmups, *epoch.blocks))


def _suffix(number: int) -> str:
    return CONFIRMING if number == 1 else f"{CONFIRMING}-{number}"


def confirmed_by(name: str) -> tuple[str, int]:
    """Return the workload's text and the number of the set of fresh epochs that a plan's `name` stands for."""
    workload, _, number = name.rpartition(CONFIRMING)
    return workload, int(number[1:] or 1)


def confirming_plan(workload: Workload, arms: Sequence[Arm], design: Design, seed: int, number: int = 1) -> Plan:
    """Return the plan of a set of fresh epochs of these arms under `design.confirming()`; its seed follows from `seed`.

    Sets are numbered from 1 on.
    """
    derived = random.Random(f"{seed}/{workload}{_suffix(number)}").randrange(2**31)  # noqa: S311 - see below
    return replace(plan_for(workload, arms, design.confirming(), derived), confirms=number)


def plan_for(workload: Workload, arms: Sequence[Arm], design: Design, seed: int) -> Plan:
    """Return the order that `seed` gives this workload; equal arguments give equal plans on every machine."""
    rng = random.Random(f"{seed}/{workload}")  # noqa: S311 - an experiment's order, not a secret
    arms = sorted(arms)

    def ordered() -> tuple[Arm, ...]:
        return tuple(arms if design.in_order else rng.sample(arms, len(arms)))

    together = design.blocks if design.in_order else design.parts

    def blocks() -> tuple[tuple[Arm, ...], ...]:
        return tuple(block for _ in range(design.blocks // together) for block in [ordered()] * together)

    epochs = tuple(Epoch(number, ordered(), blocks(), together) for number in range(design.most_epochs))
    return Plan(workload, tuple(arms), seed, epochs, design.looks)
