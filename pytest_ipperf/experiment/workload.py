"""The measurement of one workload: all its epochs and blocks, every arm in each block, in the order of the plan."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.design import Design
from pytest_ipperf.core.errors import InvalidError, IpperfError, LabError
from pytest_ipperf.core.plan import Epoch, Plan
from pytest_ipperf.core.run import Run
from pytest_ipperf.lab.inventory import Testbed
from pytest_ipperf.lab.standing import Receipt, Service, Standing, leased, stand
from pytest_ipperf.metrics import METRICS

METRIC = "response_time"
WARMUP = -1
"""The block number of an epoch's warm-up runs."""

_TOTAL = -1
# A single lost connection is data, also where it is the whole run; this many in a row are a server that is not there.
_HOPELESS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What holds for all workloads of a session. `owner` names the job to others that want the same hosts."""

    design: Design
    reference: Arm
    server: str
    deadline_s: float
    owner: str
    wait_s: float


class Listener(Protocol):
    """Hears of everything as it happens: the store appends it, the progress line shows it."""

    def note(self, text: str) -> None:
        """Something a person waiting should know."""

    def epoch(self, number: int, service: Service, paths: Mapping[Arm, Mapping[str, Any]], hosts: Any) -> None:
        """An epoch stands: its server, the proof of every arm's path, the hosts' fingerprints."""

    def run(self, run: Run, receipt: Receipt) -> None:
        """A run is done."""

    def broke_off(self, sentence: str) -> None:
        """The measurement ended in trouble."""

    def ended(self) -> None:
        """The measurement is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All that was measured of a workload. `invalid` tells for an arm whose proof failed what spoke against it."""

    plan: Plan
    service: Service
    runs: tuple[Run, ...]
    rows: Mapping[Arm, tuple[tuple[float, ...], ...]]
    invalid: Mapping[Arm, str]
    seconds: float


def measure(plan: Plan, testbed: Testbed, conditions: Conditions, hear: Listener) -> Measurement:
    """Carries out `plan`.

    Raises LabError when the testbed or the instrument breaks, InvalidError when the reference's proof fails. Another
    arm whose proof fails is measured no further and comes back in `invalid`.
    """
    course = _Course(plan, conditions, hear, rows={arm: [] for arm in plan.arms})
    try:
        with leased(testbed, conditions.owner, conditions.wait_s, hear.note):
            began = time.monotonic()  # waiting for the lease is no part of what the next forecast should expect
            for epoch in plan.epochs:
                with stand(testbed, conditions.owner, conditions.wait_s, hear.note) as standing:
                    course.epoch(epoch, standing)
            seconds = time.monotonic() - began
    except IpperfError as error:
        hear.broke_off(str(error))
        raise
    hear.ended()
    return Measurement(
        plan=plan,
        service=course.services[-1],
        runs=tuple(course.runs),
        rows={arm: tuple(rows) for arm, rows in course.rows.items()},
        invalid=course.invalid,
        seconds=seconds,
    )


@dataclass
class _Course:
    """The measurement under way, and what has come in so far."""

    plan: Plan
    conditions: Conditions
    hear: Listener
    rows: dict[Arm, list[tuple[float, ...]]]
    services: list[Service] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    invalid: dict[Arm, str] = field(default_factory=dict)

    def epoch(self, epoch: Epoch, standing: Standing) -> None:
        """Everything of one epoch: servers, proofs of the paths, warm-ups, blocks."""
        workload = self.plan.workload
        service = standing.serve(workload, self.conditions.server)
        self.services.append(service)
        paths = {arm: standing.prove(arm, service, workload) for arm in self.plan.arms if arm not in self.invalid}
        self.hear.epoch(epoch.number, service, paths, standing.fingerprint(self.conditions.reference))
        for arm, facts in paths.items():
            self._note_contradictions(arm, facts["contradictions"], f"epoch {epoch.number}")
        for number, block in enumerate((epoch.warmups, *epoch.blocks), start=WARMUP):
            for slot, arm in enumerate(block):
                if arm not in self.invalid:
                    self._run(standing, service, arm, _Place(epoch.number, number, slot))

    def _run(self, standing: Standing, service: Service, arm: Arm, place: _Place) -> None:
        workload, deadline_s = self.plan.workload, self.conditions.deadline_s
        bursts = self.conditions.design.bursts(workload.connections)
        started = time.monotonic()
        receipt = standing.run(arm, service, workload, bursts=bursts, deadline_s=deadline_s)
        samples = tuple(row[_TOTAL] for row in receipt.rows)
        run = Run(
            arm=arm,
            epoch=place.epoch,
            block=place.block,
            slot=place.slot,
            warmup=place.block == WARMUP,
            started_at=started,
            attempted=receipt.attempted,
            failed=receipt.failed,
            samples=samples,
            value=METRICS[METRIC].value(samples, receipt.attempted - len(samples), deadline_s),
        )
        self.runs.append(run)
        if not run.warmup:
            self.rows[arm].extend(receipt.rows)
        self.hear.run(run, receipt)
        self._check(run, receipt, service)

    def _check(self, run: Run, receipt: Receipt, service: Service) -> None:
        lost = self._lost_in_a_row(run.arm)
        if run.arm == self.conditions.reference and lost.total() >= _HOPELESS:
            kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(lost.items()))
            raise LabError(
                f"workload {self.plan.workload}: the reference {run.arm} completed none of {lost.total()} "
                f"connections ({kinds}), so there is nothing to compare with; is the server {service} well?"
            )
        where = f"epoch {run.epoch}, {'warm-up' if run.warmup else f'block {run.block}'}"
        self._note_contradictions(run.arm, receipt.contradictions, where)

    def _lost_in_a_row(self, arm: Arm) -> Counter[str]:
        """The failures of the arm's last runs that completed nothing, by kind."""
        lost: Counter[str] = Counter()
        for run in reversed(self.runs):
            if run.arm == arm:
                if run.completed:
                    break
                lost.update(run.failed)
        return lost

    def _note_contradictions(self, arm: Arm, contradictions: Sequence[str], where: str) -> None:
        if not contradictions:
            return
        sentence = f"arm {arm} is not what it is called ({where}): {'; '.join(contradictions)}"
        if arm == self.conditions.reference:
            raise InvalidError(sentence)
        self.invalid[arm] = sentence


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the plan a run stands."""

    epoch: int
    block: int
    slot: int
