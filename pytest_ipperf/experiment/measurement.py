"""Input, observer and output of a measurement."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.plan import WARMUP, Plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.verdict import Judgement
from pytest_ipperf.core.measurement.link_rate import TrainRates
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.run_data import completed_s, completed_times, course_of
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.lab.epoch.provisioning import Provisioning
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.lab.runs.flows import Duration
from pytest_ipperf.lab.runs.result import RunResult, ServerEndpoint
from pytest_ipperf.traffic_models import shipped_models

_NOTHING = ServerState()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions of a measurement.

    `owner` names the job to others that wait for the same hosts, at most `wait_s` seconds. `state` is the server state,
    which `provisioning` keeps on the server's host. `backend` is the tunnels' backend: its name, `auto`, or empty for
    the inventory's choice. `capture` is the number of packets of each run to capture on each host. `reboot` restarts
    all hosts before each epoch except the first. `models` are the traffic models by name.
    """

    design: Design
    reference: Arm
    server: str
    deadline_s: float
    owner: str
    wait_s: float
    state: ServerState = _NOTHING
    provisioning: Provisioning | None = None
    backend: str = ""
    capture: int = 0
    reboot: bool = False
    models: Mapping[str, TrafficModel] = field(default_factory=shipped_models)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Network of a testbed: its links, and whether all of them are within one machine.

    `backends` are the tunnels' backends by transport; `client_hosts` are the names of the clients if there are several.
    """

    links: Links
    one_machine: bool
    backends: Mapping[str, str]
    client_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a run in the plan."""

    epoch: int
    block: int
    slot: int

    def bursts(self, design: Design, connections: int) -> int:
        """Return the number of bursts of `connections` at this place."""
        return design.warmup_bursts(connections) if self.block == WARMUP else design.bursts(connections)

    def duration(self, design: Design, longest_warmup_s: float) -> Duration:
        """Return how long a flow's traffic lasts at this place."""
        run_s = design.warmup_run_s(longest_warmup_s) if self.block == WARMUP else design.run_s
        return Duration(warmup_s=design.warmup_s, run_s=run_s)

    def run(
        self, arm: Arm, started_at: float, took_s: float, result: RunResult, values: Mapping[str, float | None]
    ) -> Run:
        """Return the run of an arm at this place, which has just ended, with its values by metric."""
        data = result.data
        return Run(
            arm=arm,
            epoch=self.epoch,
            block=self.block,
            slot=self.slot,
            warmup=self.block == WARMUP,
            started_at=started_at,
            attempted=data.attempted,
            failed=data.failed,
            values=values,
            client=result.client,
            completed_s=completed_s(data),
            facts=data.facts,
            notes=result.notes,
            times=completed_times(data),
            course=course_of(data),
            began_at=time.time() - took_s,
            took_s=took_s,
        )


class RunObserver(Protocol):
    """Observer of a measurement; implementations write its events to the event log and show the progress line."""

    def note(self, text: str) -> None:
        """Show a message to the user."""

    def rebooted(self, number: int, hosts: Mapping[str, float]) -> None:
        """Record that the hosts were restarted for an epoch; `hosts` maps names to the seconds until each was back."""

    def epoch(
        self,
        number: int,
        service: ServerEndpoint,
        paths: Mapping[Arm, Mapping[str, Any]],
        hosts: Any,
        backends: Mapping[str, str],
    ) -> None:
        """Record that an epoch is ready, with its server, the proof of every arm's path and the hosts' fingerprints.

        `backends` are the tunnels' by transport.
        """

    def counters(self, number: int, when: str, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the interface counters `before` or `after` the runs of an epoch, by role, as `snmp.counters`."""

    def run(self, run: Run, result: RunResult) -> None:
        """Record a finished run."""

    def baseline_cost(self, arm: Arm, value_s: float | None, result: RunResult) -> None:
        """Record an arm's baseline cost, measured against the null server; None if not all connections completed."""

    def logs(self, number: int, logs: Mapping[str, str]) -> None:
        """Record the ends of the servers' logs, by server, of an epoch in which something failed."""

    def look(
        self, number: int, answers: Mapping[Arm, Mapping[Question, Judgement]], going_on: Collection[Arm], stopped: str
    ) -> None:
        """Record look `number` (from 0): the answers of the undecided arms, and the arms that are measured further.

        `going_on` is the arms still undecided and the reference, or empty; `stopped` is the reason if it is empty
        although arms are undecided.
        """

    def time(self, seconds: Mapping[str, float], epoch: int | None = None) -> None:
        """Record the seconds by activity since the last call, up to the end of an epoch or of the measurement."""

    def broke_off(self, sentence: str) -> None:
        """Record that an error ended the measurement."""

    def ended(self) -> None:
        """Record that the measurement is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Result of the measurement of a workload.

    `rows` holds the samples of connections by arm and epoch, without warm-ups; flows have none, as their runs are
    complete. `looks` is the number of looks of each arm's data, `trouble` the error for which an arm has no answer, and
    `stopped` the reason why arms were left undecided although the design has more looks. `answered` are the arms that
    their answers decided. `seconds` holds the duration of each look, `baseline_costs` the response times against the
    null server, and `trains` the rates of the paths by packet train, by arm and epoch. `hosts` are the fingerprints of
    the first epoch by role.
    """

    plan: Plan
    service: ServerEndpoint
    runs: tuple[Run, ...]
    rows: Mapping[tuple[Arm, int], tuple[tuple[float, ...], ...]]
    looks: Mapping[Arm, int]
    trouble: Mapping[Arm, IpperfError]
    stopped: str
    seconds: tuple[float, ...]
    baseline_costs: Mapping[Arm, float]
    answered: frozenset[Arm]
    network: Network
    trains: Mapping[tuple[Arm, int], TrainRates]
    hosts: Mapping[str, Mapping[str, Any]]
