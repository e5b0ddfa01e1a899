"""The measurement of one workload: all its epochs and blocks, every arm in each block, in the order of the plan."""

from __future__ import annotations

import time
from collections.abc import Mapping
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
_TOTAL = -1


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


@dataclass
class _Progress:
    """What has come in so far."""

    services: list[Service] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    rows: dict[Arm, list[tuple[float, ...]]] = field(default_factory=dict)
    invalid: dict[Arm, str] = field(default_factory=dict)


def measure(plan: Plan, testbed: Testbed, conditions: Conditions, hear: Listener) -> Measurement:
    """Carries out `plan`.

    Raises LabError when the testbed or the instrument breaks, InvalidError when the reference's proof fails. Another
    arm whose proof fails is measured no further and comes back in `invalid`.
    """
    began = time.monotonic()
    found = _Progress(rows={arm: [] for arm in plan.arms})
    try:
        with leased(testbed, conditions.owner, conditions.wait_s, hear.note):
            for epoch in plan.epochs:
                with stand(testbed, conditions.owner, conditions.wait_s, hear.note) as standing:
                    _measure_epoch(epoch, plan, standing, conditions, found, hear)
    except IpperfError as error:
        hear.broke_off(str(error))
        raise
    hear.ended()
    return Measurement(
        plan=plan,
        service=found.services[-1],
        runs=tuple(found.runs),
        rows={arm: tuple(rows) for arm, rows in found.rows.items()},
        invalid=found.invalid,
        seconds=time.monotonic() - began,
    )


def _measure_epoch(
    epoch: Epoch, plan: Plan, standing: Standing, conditions: Conditions, found: _Progress, hear: Listener
) -> None:
    service = standing.serve(plan.workload, conditions.server)
    found.services.append(service)
    paths = {arm: standing.prove(arm, service, plan.workload) for arm in plan.arms if arm not in found.invalid}
    hear.epoch(epoch.number, service, paths, standing.fingerprint(conditions.reference))
    for arm, facts in paths.items():
        _note_contradictions(found, arm, facts["contradictions"], conditions.reference, f"epoch {epoch.number}")
    measurement = _EpochRuns(epoch.number, plan, standing, service, conditions, found, hear)
    for slot, arm in enumerate(epoch.warmups):
        measurement.run(arm, block=-1, slot=slot, warmup=True)
    for number, block in enumerate(epoch.blocks):
        for slot, arm in enumerate(block):
            measurement.run(arm, block=number, slot=slot, warmup=False)


@dataclass
class _EpochRuns:
    """The runs of one epoch share all of this."""

    epoch: int
    plan: Plan
    standing: Standing
    service: Service
    conditions: Conditions
    found: _Progress
    hear: Listener

    def run(self, arm: Arm, *, block: int, slot: int, warmup: bool) -> None:
        """One run, unless the arm has been found invalid."""
        if arm in self.found.invalid:
            return
        workload, design = self.plan.workload, self.conditions.design
        bursts = -(-design.burst_connections // workload.connections)
        started = time.monotonic()
        receipt = self.standing.run(
            arm, self.service, workload, bursts=bursts, deadline_s=self.conditions.deadline_s
        )
        samples = tuple(row[_TOTAL] for row in receipt.rows)
        failures = receipt.attempted - len(samples)
        run = Run(
            arm=arm,
            epoch=self.epoch,
            block=block,
            slot=slot,
            warmup=warmup,
            started_at=started,
            attempted=receipt.attempted,
            failed=receipt.failed,
            samples=samples,
            value=METRICS[METRIC].value(samples, failures, self.conditions.deadline_s),
        )
        self.found.runs.append(run)
        if not warmup:
            self.found.rows[arm].extend(receipt.rows)
        self.hear.run(run, receipt)
        self._check(run, receipt)

    def _check(self, run: Run, receipt: Receipt) -> None:
        reference = self.conditions.reference
        if run.arm == reference and not run.completed:
            kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(run.failed.items()))
            raise LabError(
                f"workload {self.plan.workload}: the reference {reference} completed none of {run.attempted} "
                f"connections ({kinds}), so there is nothing to compare with; is the server {self.service} well?"
            )
        where = f"epoch {run.epoch}, {'warm-up' if run.warmup else f'block {run.block}'}"
        _note_contradictions(self.found, run.arm, receipt.contradictions, reference, where)


def _note_contradictions(
    found: _Progress, arm: Arm, contradictions: list[str] | tuple[str, ...], reference: Arm, where: str
) -> None:
    if not contradictions:
        return
    sentence = f"arm {arm} is not what it is called ({where}): {'; '.join(contradictions)}"
    if arm == reference:
        raise InvalidError(sentence)
    found.invalid[arm] = sentence
