"""Measure the baseline cost of each arm of a workload, against the null server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.experiment.measurement import RunObserver
from pytest_ipperf.lab.epoch.live_testbed import LiveTestbed
from pytest_ipperf.lab.runs.result import ServerEndpoint


@dataclass
class BaselineCosts:
    """Baseline costs by arm, in seconds; they are `due` until measured or kept. `took_s` is the time of measuring."""

    values: dict[Arm, float] = field(default_factory=dict)
    due: bool = True
    took_s: float = 0.0

    def keep(self, values: Mapping[Arm, float]) -> None:
        """Take over the costs that an earlier session measured, if there are any."""
        self.values |= values
        self.due = not values

    def measure(
        self,
        live: LiveTestbed,
        service: ServerEndpoint,
        workloads: Mapping[Arm, Workload],
        observer: RunObserver,
        *,
        bursts: int,
        deadline_s: float,
    ) -> None:
        """Measure each arm, once only, as its cost depends on the hosts and not on the epoch."""
        self.due = False
        for arm, workload in workloads.items():
            began = time.monotonic()
            try:
                result = live.baseline_cost(arm, service, workload, bursts=bursts, deadline_s=deadline_s)
            except AgentError:
                raise
            except LabError as error:  # the measurement does not depend on it
                observer.note(f"the client's baseline cost was not found: {error}")
                return
            self.took_s += time.monotonic() - began
            if not result.data.failed and not result.violations:
                self.values[arm] = statistics.fmean(result.data.column("total"))
            observer.baseline_cost(arm, self.values.get(arm), result)
