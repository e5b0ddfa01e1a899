"""The session: what one pytest process knows. Settings in, plan after the collection, results as they come."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ipperf.core.cell import Arm, Cell, Workload
from pytest_ipperf.core.plan import Plan, plan_for
from pytest_ipperf.lab.inventory import Testbed
from pytest_ipperf.lab.namespaces import unusable
from pytest_ipperf.plugin.options import Settings
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.store import run_folder

if TYPE_CHECKING:
    from pytest_ipperf.core.errors import IpperfError
    from pytest_ipperf.experiment import Measurement

# Building a testbed, proving its paths, starting its servers; and what a run costs beside its connections.
_EPOCH_S = 0.6
_RUN_S = 0.05
_CACHE_KEY = "ipperf/seconds"


class Session:
    """One pytest process; in a worker of xdist `told` is what the controller handed over."""

    def __init__(self, config: pytest.Config, settings: Settings, told: Mapping[str, Any] | None) -> None:
        self.config = config
        self.settings = settings
        self.is_worker = told is not None
        self.lab_trouble = unusable()
        self.folder = Path(told["folder"]) if told else run_folder(settings.records)
        self.writer = os.environ.get("PYTEST_XDIST_WORKER", "main") if told else "main"
        self.owner = f"{uuid.uuid4().hex}"
        self.plans: dict[Workload, Plan] = {}
        self.lacking: list[str] = []
        self.results: dict[Workload, Measurement | IpperfError] = {}
        self.measuring_since: float | None = None

    @property
    def default_testbed(self) -> str:
        """The better of the built-in testbeds that works here."""
        return "loopback" if self.lab_trouble else "lab"

    @property
    def testbeds(self) -> list[Testbed]:
        """The testbeds that this session may measure on."""
        names = self.settings.testbeds or (self.default_testbed,)
        return [self.settings.inventory[name] for name in names]

    def make_plans(self, cells: Iterable[Cell]) -> None:
        """The plan of every workload that the selected cells need, the reference included."""
        arms: dict[Workload, set[Arm]] = {}
        for cell in cells:
            arms.setdefault(cell.workload, {self.settings.reference}).add(cell.arm)
        self.plans = {
            workload: plan_for(workload, sorted(needed), self.settings.design, self.settings.seed)
            for workload, needed in arms.items()
        }

    def forecast_s(self, plan: Plan) -> float:
        """Seconds that a plan will take: as long as last time, else by rule of thumb."""
        earlier = self._seconds().get(self._key(plan))
        if earlier is not None:
            return float(earlier)
        design, workload = self.settings.design, plan.workload
        connections = workload.connections * design.bursts(workload.connections)
        return design.epochs * _EPOCH_S + plan.runs * (_RUN_S + connections * PROTOCOLS[workload.protocol].typical_s)

    def remember_s(self, plan: Plan, seconds: float) -> None:
        """Keeps how long a plan took, for the next forecast; workers leave the cache to the controller's process."""
        if self._cache is not None and not self.is_worker:
            self._cache.set(_CACHE_KEY, {**self._seconds(), self._key(plan): round(seconds, 2)})

    @property
    def _cache(self) -> pytest.Cache | None:
        return getattr(self.config, "cache", None)  # -p no:cacheprovider takes the attribute away

    def _seconds(self) -> dict[str, float]:
        return dict(self._cache.get(_CACHE_KEY, {})) if self._cache is not None else {}

    def _key(self, plan: Plan) -> str:
        settings = self.settings
        return f"{plan.workload}/{settings.design.name}/{len(plan.arms)}/{settings.server}/{settings.deadline_s:g}"

    def budget_left_s(self) -> float | None:
        """Seconds of the budget that are left since the first workload began; None without a budget."""
        if self.settings.budget_s is None:
            return None
        if self.measuring_since is None:
            self.measuring_since = time.monotonic()
        return self.settings.budget_s - (time.monotonic() - self.measuring_since)


SESSION = pytest.StashKey[Session]()
