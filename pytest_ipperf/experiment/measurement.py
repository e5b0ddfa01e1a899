"""What a measurement is given, whom it tells, and what it gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.verdict import Judgement
from pytest_ipperf.core.measurement.link_rate import TrainRates
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.epoch.provisioning import Provisioning
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.lab.runs.result import RunResult, ServerEndpoint

_NOTHING = ServerState()
WARMUP = -1
"""The block number of an epoch's warm-up runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What holds for a measurement. `owner` names the job to others that want the same hosts.

    `state` is what the server is to hold, and `provisioning` keeps that on its host. `backend` is to carry the tunnels:
    `auto`, or its name; empty where that is left to the inventory. So many packets of each run are captured on each
    host. With `reboot` every host is started anew before each epoch but the first.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What a testbed's links do, and whether all of them lie within one machine.

    `backends` are what carried its tunnels, by transport, and `client_hosts` the names of its clients, where they are
    several.
    """

    links: Links
    one_machine: bool
    backends: Mapping[str, str]
    client_hosts: tuple[str, ...] = ()


class RunObserver(Protocol):
    """Observes a measurement: implementations write its events to the journal and show the progress line."""

    def note(self, text: str) -> None:
        """Something a person waiting should know."""

    def rebooted(self, number: int, hosts: Mapping[str, float]) -> None:
        """For an epoch the hosts were started anew; by name the seconds until each was back."""

    def epoch(self, number: int, service: ServerEndpoint, paths: Mapping[Arm, Mapping[str, Any]], hosts: Any) -> None:
        """An epoch stands: its server, the proof of every arm's path, the hosts' fingerprints."""

    def counters(self, number: int, when: str, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """What interfaces had counted `before` the runs of an epoch or `after` them, by role, as `snmp.counters`."""

    def run(self, run: Run, result: RunResult) -> None:
        """A run is done."""

    def baseline_cost(self, arm: Arm, value_s: float | None, result: RunResult) -> None:
        """An arm's baseline cost was measured, against the null server; None when not all of it completed."""

    def logs(self, number: int, logs: Mapping[str, str]) -> None:
        """The ends of the servers' logs of an epoch in which something failed, by server."""

    def look(
        self, number: int, answers: Mapping[Arm, Mapping[Question, Judgement]], going_on: Collection[Arm], stopped: str
    ) -> None:
        """Look `number` (from 0) was taken: the answers of the arms that were undecided, and which arms go on.

        Those are the open ones and the reference, or none; `stopped` says why none does although some are open.
        """

    def broke_off(self, sentence: str) -> None:
        """The measurement ended in trouble."""

    def ended(self) -> None:
        """The measurement is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All that was measured of a workload.

    `rows` holds the samples of connections by arm and epoch, warm-ups left out; of a flow there are none, as its runs
    tell all. `looks` tells for each arm how many looks its data have, `trouble` why an arm has no answer, `stopped` why
    arms were left undecided although the design has more looks. `answered` are the arms that were decided by their
    answers. `seconds` holds the time of each look, `baseline_costs` the response time of the arms against the null
    server. `network` is by what they travelled, and `trains` hold the rates that their paths were seen to have, by arm
    and epoch. `hosts` are the fingerprints of the first epoch by role.
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
