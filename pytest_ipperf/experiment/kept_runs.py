"""Runs of a plan that an earlier session made before it broke off, with which a measurement goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import WARMUP, Epoch
from pytest_ipperf.core.measurement.link_rate import TrainRates
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.lab.runs.result import ServerEndpoint


@dataclass(frozen=True, kw_only=True)
class KeptRuns:
    """Earlier runs and what was learned of their epochs, as `Measurement` has them; `services` has one by epoch."""

    runs: tuple[Run, ...] = ()
    rows: Mapping[tuple[Arm, int], tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    services: Mapping[int, ServerEndpoint] = field(default_factory=dict)
    baseline_costs: Mapping[Arm, float] = field(default_factory=dict)
    backends: Mapping[str, str] = field(default_factory=dict)
    trains: Mapping[tuple[Arm, int], TrainRates] = field(default_factory=dict)
    hosts: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def _places(self) -> frozenset[tuple[int, int, int]]:
        return frozenset((run.epoch, run.block, run.slot) for run in self.runs if not run.warmup)

    def has(self, epoch: int, block: int, slot: int) -> bool:
        """Return whether the run of this place was made; warm-ups are made again where a run of theirs is missing."""
        return (epoch, block, slot) in self._places

    def missing(self, epoch: Epoch, arms: Collection[Arm]) -> frozenset[Arm]:
        """Return which of the arms that are to be measured in an epoch lack a run there."""
        return frozenset(
            arm
            for block, slot, arm in epoch.places()
            if arm in arms and block != WARMUP and not self.has(epoch.number, block, slot)
        )

    def seconds(self, epochs: Collection[int]) -> float:
        """Return the seconds of the runs of these epochs."""
        return sum(run.took_s for run in self.runs if run.epoch in epochs)
