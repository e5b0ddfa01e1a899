"""Measure one workload look by look: every undecided arm in each block, in the order of the plan."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.plan import Epoch, Plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.interim_analysis import is_undecided
from pytest_ipperf.core.inference.verdict import Judgement
from pytest_ipperf.core.measurement.link_rate import TrainRates
from pytest_ipperf.core.measurement.path_proof import rate_shortfalls
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.portable.errors import InvalidError, IpperfError, LabError, RestoreError
from pytest_ipperf.core.portable.units import rate_text
from pytest_ipperf.core.portable.workload_kind import WorkloadKind
from pytest_ipperf.experiment.baseline_costs import BaselineCosts
from pytest_ipperf.experiment.compared_arms import compares, references_of
from pytest_ipperf.experiment.kept_runs import KeptRuns
from pytest_ipperf.experiment.looks import answers_at
from pytest_ipperf.experiment.measurement import Conditions, Measurement, Network, Place, RunObserver
from pytest_ipperf.experiment.obstacles import obstacles
from pytest_ipperf.experiment.reference_check import check_reference
from pytest_ipperf.experiment.stopwatch import Stopwatch
from pytest_ipperf.lab.agents.file_descriptors import enough_descriptors
from pytest_ipperf.lab.agents.leases import lease_for, leased
from pytest_ipperf.lab.agents.reboot import reboot_hosts
from pytest_ipperf.lab.epoch.arm_workload import workload_of
from pytest_ipperf.lab.epoch.live_testbed import LiveTestbed, live_testbed
from pytest_ipperf.lab.epoch.teardowns import Teardowns
from pytest_ipperf.lab.inventory.limits import check_rebootable
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.runs.link_rate import arms_header_cost
from pytest_ipperf.lab.runs.result import RunResult, ServerEndpoint
from pytest_ipperf.lab.snmp.counters import InterfaceCounters
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS


def measure(
    plan: Plan,
    testbed: Testbed,
    conditions: Conditions,
    observer: RunObserver,
    *,
    asked: Mapping[Arm, Collection[Question]],
    refuses: Callable[[float], str] = lambda _: "",
    kept: KeptRuns = KeptRuns(),  # noqa: B008 - it is frozen
) -> Measurement:
    """Carry out `plan`, look by look, and return the measurement.

    An arm is measured no further once all its questions in `asked` are answered, or if its path verification fails.
    `refuses` gets the expected seconds of another look and returns the reason why there is no time for it, or "". The
    runs of `kept` are not made again.

    Raises LabError if the testbed or the instrument breaks, and InvalidError if the reference's path verification
    fails. Once an arm is decided, such an error is not raised but recorded as the trouble of the undecided arms.
    """
    if conditions.reboot:
        check_rebootable(testbed)
    enough_descriptors(testbed)
    meters, watch = InterfaceCounters(testbed, observer.note), Stopwatch(time.monotonic)
    state = _State(plan, testbed, conditions, observer, asked, meters, kept, watch)
    lease = leased(testbed, conditions.owner, conditions.wait_s, observer.note)
    try:
        with watch.around(lease, "wait", "teardown"), watch.around(state.teardowns, "build", "teardown"):
            for number in range(plan.looks):
                began = time.monotonic()  # without the wait for the lease, which the next forecast should not expect
                for epoch in filter(state.is_open, plan.look(number)):
                    state.reboot_hosts(epoch)
                    with state.live_testbed() as live, state.logs_on_failure(epoch, live):
                        state.epoch(epoch, live)
                    observer.time(watch.take(), epoch.number)
                earlier_s = kept.seconds([epoch.number for epoch in plan.look(number)])
                state.seconds.append(earlier_s + time.monotonic() - began)
                with watch.activity("judge"):
                    if not state.take_look(number, refuses):
                        break
    except IpperfError as error:
        observer.broke_off(str(error))
        if not state.answered or isinstance(error, RestoreError):
            raise
        state.trouble |= dict.fromkeys(state.undecided, error)
    else:
        observer.ended()
    finally:
        observer.time(watch.take())
    return state.measurement()


@dataclass
class _State:
    """State of a measurement in progress."""

    plan: Plan
    testbed: Testbed
    conditions: Conditions
    observer: RunObserver
    asked: Mapping[Arm, Collection[Question]]
    meters: InterfaceCounters
    kept: KeptRuns
    watch: Stopwatch
    rows: dict[tuple[Arm, int], list[tuple[float, ...]]] = field(default_factory=dict)
    services: list[ServerEndpoint] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    run_s: dict[Arm, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    answered: dict[Arm, int] = field(default_factory=dict)
    trouble: dict[Arm, IpperfError] = field(default_factory=dict)
    costs: BaselineCosts = field(default_factory=BaselineCosts)
    stopped: str = ""
    backends: dict[str, str] = field(default_factory=dict)
    trains: dict[tuple[Arm, int], TrainRates] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    below_rate: set[Arm] = field(default_factory=set)
    teardowns: Teardowns = field(default_factory=Teardowns)

    def __post_init__(self) -> None:
        kept = self.kept
        self.runs += kept.runs
        self.rows |= {place: list(rows) for place, rows in kept.rows.items()}
        self.services += kept.services.values()
        self.costs.keep(kept.baseline_costs)
        self.backends |= kept.backends
        self.trains |= kept.trains
        self.hosts |= kept.hosts
        for run in kept.runs:
            self.run_s[run.arm] = self.run_s.get(run.arm, 0.0) + run.took_s

    def is_open(self, epoch: Epoch) -> bool:
        """Return whether an epoch has runs to be made."""
        return bool(self.kept.missing(epoch, self._measured))

    @property
    def _measured(self) -> list[Arm]:
        return [arm for arm in self.plan.arms if self._is_measured(arm)]

    @property
    def undecided(self) -> list[Arm]:
        """Return the arms that are undecided and still measured; a reference if it has limits of its own."""
        return [
            arm
            for arm in self.plan.arms
            if arm not in {*self.answered, *self.trouble} and (self.asked.get(arm) or self._reference_of(arm) != arm)
        ]

    def _reference_of(self, arm: Arm) -> Arm:
        return self.plan.workload.reference(arm, self.conditions.reference)

    @cached_property
    def references(self) -> frozenset[Arm]:
        """Arms that others are compared with; none if all questions are about limits."""
        return references_of(self.plan, self.conditions.reference, self.asked)

    @property
    def _needed(self) -> list[Arm]:
        """Return the references of the undecided arms, in the order of the plan."""
        undecided = self.undecided
        needed = {reference for arm in undecided if compares(arm, reference := self._reference_of(arm), self.asked)}
        return [arm for arm in self.plan.arms if arm in needed and arm not in self.trouble]

    @property
    def first_arm(self) -> Arm:
        """Return the arm that verifies the server: a reference, or the first; raise the trouble if all have some."""
        measured = self._measured
        if not measured:
            raise next(iter(self.trouble.values()))
        return next((arm for arm in measured if arm in self.references), measured[0])

    def measurement(self) -> Measurement:
        """Return the measurement so far."""
        return Measurement(
            plan=self.plan,
            service=self.services[-1],
            runs=tuple(self.runs),
            rows={place: tuple(rows) for place, rows in self.rows.items()},
            looks={arm: self.answered.get(arm, len(self.seconds)) for arm in self.plan.arms},
            trouble=self.trouble,
            stopped=self.stopped,
            seconds=tuple(self.seconds),
            baseline_costs=self.costs.values,
            answered=frozenset(self.answered),
            network=Network(
                links=self.testbed.links,
                one_machine=len({host.machine for host in self.testbed.hosts}) == 1,
                backends=self.backends,
                client_hosts=self.testbed.client_hosts,
            ),
            trains=self.trains,
            hosts=self.hosts,
        )

    def take_look(self, number: int, refuses: Callable[[float], str]) -> bool:
        """Take a look; return whether another one follows, which needs undecided arms and enough time."""
        answers = {arm: self._answers(arm) for arm in self.undecided} if self.conditions.design.judges else {}
        self.answered |= {arm: number + 1 for arm, found in answers.items() if found and not is_undecided(found)}
        going_on: list[Arm] = []
        if number + 1 < self.plan.looks and self.undecided:
            self.stopped = refuses(self._expected_s(self.plan.look(number + 1)))
            going_on = [] if self.stopped else self._going_on
        self.observer.look(number, answers, going_on, self.stopped)
        return bool(going_on)

    @property
    def _going_on(self) -> list[Arm]:
        """Return the arms that the next look needs: undecided ones, and those that they are compared with."""
        return list(dict.fromkeys((*self._needed, *self.undecided)))

    def _answers(self, arm: Arm) -> Mapping[Question, Judgement]:
        ends = [self.plan.epochs_by(look + 1) for look in range(len(self.seconds))]
        cost = arms_header_cost(self.testbed.links, arm, self._reference_of(arm), self.plan.workload)
        found, failed = answers_at(
            self.runs, arm, self.asked.get(arm, ()), ends,
            workload=self.plan.workload, conditions=self.conditions, header_cost=cost,
        )  # fmt: skip
        if failed and not found:
            self.trouble[arm] = failed[0]
        return found

    def _expected_s(self, epochs: Sequence[Epoch]) -> float:
        """Return the expected seconds of these epochs, from the past epochs and the remaining arms' runs."""
        overhead_s = sum(self.seconds) - sum(self.run_s.values()) - self.costs.took_s
        count = Counter(run.arm for run in self.runs)
        runs_s = (self.run_s[arm] / count[arm] * self.plan.runs_of(epochs, [arm]) for arm in self._going_on)
        return overhead_s / len(self.services) * len(epochs) + sum(runs_s)

    def reboot_hosts(self, epoch: Epoch) -> None:
        """Reboot the hosts if the conditions require it, except before the first epoch."""
        at = self.conditions
        if not at.reboot or epoch.number == 0:
            return
        names = dict.fromkeys(host.name for host in self.testbed.hosts)
        self.observer.note(f"starting {', '.join(names)} anew for epoch {epoch.number}")
        with self.watch.activity("reboot"):
            self.teardowns.finish()
            if at.provisioning:
                at.provisioning.close()  # the reboot ends its agents
            took_s = reboot_hosts(self.testbed, lease_for(at.owner, at.wait_s, self.observer.note))
        self.observer.rebooted(epoch.number, took_s)

    def live_testbed(self) -> contextlib.AbstractContextManager[LiveTestbed]:
        """Return one epoch of the testbed, with the transports of the arms that are still measured."""
        at, arms = self.conditions, self._measured
        transports = sorted({arm.transport for arm in arms} - {"native"})
        live = live_testbed(
            self.testbed, at.owner, at.wait_s, self.observer.note,
            transports=transports, backend=at.backend, teardowns=self.teardowns,
        )  # fmt: skip
        return self.watch.around(live, "build", "teardown")

    @contextlib.contextmanager
    def logs_on_failure(self, epoch: Epoch, live: LiveTestbed) -> Iterator[None]:
        """Record the servers' logs if the epoch breaks off or a connection fails; the epoch's end removes them."""
        try:
            yield
        except IpperfError:
            self.observer.logs(epoch.number, live.logs())
            raise
        if any(run.failures for run in self.runs if run.epoch == epoch.number):
            self.observer.logs(epoch.number, live.logs())

    def epoch(self, epoch: Epoch, live: LiveTestbed) -> None:
        """Measure one epoch: start the server, verify the paths, and run the warm-ups and blocks."""
        for arm, error in obstacles(live, lambda: self._measured, self._workload_of):
            if self._is_measured(arm):
                self._exclude(arm, error)
        workload = self.plan.workload
        live.models = self.conditions.models
        with self.watch.activity("serve"):
            service = live.serve(workload, self.conditions.server, self.conditions.state, self.conditions.provisioning)
        self.services.append(service)
        with self.watch.activity("verify"):
            if verified := live.verify(self.first_arm, service, workload, self.conditions.deadline_s):
                self.observer.note(verified)
        trained = {arm for (arm, _), rates in self.trains.items() if rates}
        with self.watch.activity("proof"):
            paths = {
                arm: live.prove(arm, service, self._workload_of(arm), with_trains=arm not in trained)
                for arm in self._measured
            }
            live.offloads.switch(self._workload_of(self.first_arm))  # or the fingerprint would be that of a random arm
            fingerprints = live.fingerprint(self.first_arm)
        hosts = {role: asdict(each) for role, each in fingerprints.items()}
        for role, description in self.meters.descriptions().items():
            hosts[role]["snmp"] = description
        self.hosts = self.hosts or hosts
        self.observer.epoch(epoch.number, service, paths, hosts, live.tunnels.backends)
        self.backends |= live.tunnels.backends
        for arm, facts in paths.items():
            self.trains[arm, epoch.number] = facts["trains"]
            self._note_violations(arm, facts["contradictions"], f"epoch {epoch.number}")
            self._note_rate_shortfalls(arm, facts["trains"], f"epoch {epoch.number}")
        self._count(epoch, "before")
        open_arms = self.kept.missing(epoch, self._measured)
        for block, slot, arm in epoch.places():
            if arm in open_arms and self._is_measured(arm) and not self.kept.has(epoch.number, block, slot):
                with self.watch.activity("run"):
                    self._run(live, service, arm, Place(epoch.number, block, slot))
        self._count(epoch, "after")
        if self.costs.due and PROTOCOLS[workload.protocol].null:
            workloads = {arm: self._workload_of(arm) for arm in self.plan.arms if self._is_measured(arm)}
            # As few connections as in a warm-up: their mean differs by 3 % from that of a counted run's.
            bursts, deadline_s = self.conditions.design.warmup_bursts(workload.connections), self.conditions.deadline_s
            with self.watch.activity("baseline_cost"):
                self.costs.measure(live, service, workloads, self.observer, bursts=bursts, deadline_s=deadline_s)

    def _count(self, epoch: Epoch, when: str) -> None:
        """Record the interface counters of hosts that report them, `before` or `after` the runs of an epoch."""
        if counters := self.meters.counters():
            self.observer.counters(epoch.number, when, counters)

    def _is_measured(self, arm: Arm) -> bool:
        if arm in self.references and arm not in self.trouble and (arm in self._needed or not self.undecided):
            return True  # although its own limits may be answered
        return arm in self.undecided

    def _workload_of(self, arm: Arm) -> Workload:
        return workload_of(self.plan.workload, arm)

    def _run(self, live: LiveTestbed, service: ServerEndpoint, arm: Arm, place: Place) -> None:
        started = time.monotonic()
        # The arms of a block have the same arrivals.
        pattern, at = f"{self.plan.seed}/{place.epoch}/{place.block}", self.conditions
        run = partial(
            live.run,
            arm,
            service,
            self._workload_of(arm),
            bursts=place.bursts(at.design, self.plan.workload.connections),
            deadline_s=at.deadline_s,
            duration=place.duration(at.design, PROTOCOLS[self.plan.workload.protocol].longest_warmup_s),
            pattern=pattern,
            capture=at.capture,
        )
        result = self.meters.around(run, at.design.run_s)
        took_s, data = time.monotonic() - started, result.data
        self.run_s[arm] = self.run_s.get(arm, 0.0) + took_s
        made = place.run(arm, started, took_s, result, self._values(data))
        self.runs.append(made)
        self.watch.charge_run(made, result)
        if not made.warmup:
            self.rows.setdefault((arm, made.epoch), []).extend(self._kind.connection_rows(data.rows()))
        self.observer.run(made, result)
        self._check(made, result, service)

    @property
    def _kind(self) -> WorkloadKind:
        return PROTOCOLS[self.plan.workload.protocol].kind

    def _values(self, data: RunData) -> dict[str, float | None]:
        return {name: METRICS[name].value(data) for name in PROTOCOLS[self.plan.workload.protocol].metrics}

    def _check(self, run: Run, result: RunResult, service: ServerEndpoint) -> None:
        where = f"epoch {run.epoch}, {'warm-up' if run.warmup else f'block {run.block}'}"
        # Violations come first: packets on a wrong path may cause failures for which the server is not to blame.
        self._note_violations(run.arm, result.violations, where)
        if run.arm in self.references:
            check_reference(self._kind, [each for each in self.runs if each.arm == run.arm], service)

    def _exclude(self, arm: Arm, error: LabError) -> None:
        """Exclude an arm from the measurement, and those compared with it; raise the error if none is left."""
        self._trouble(arm, error)
        self.observer.note(f"arm {arm}: {error}; it is not measured")

    def _trouble(self, arm: Arm, error: IpperfError) -> None:
        """Note the error for which an arm has no answer, nor have those compared with it; raise it if none is left."""
        if arm in self.references:
            if self.references == {arm}:
                raise error
            compared = [each for each in self.plan.arms if self._reference_of(each) == arm]
            # What is answered stays answered.
            self.trouble |= {each: error for each in compared if each not in {*self.trouble, *self.answered}}
        self.trouble.setdefault(arm, error)

    def _note_rate_shortfalls(self, arm: Arm, trains: TrainRates, where: str) -> None:
        """Note an arm's first rate shortfall only; a busy machine causes many, and the table shows all."""
        rate_bit_s, shortfalls = self.testbed.links.rate_bit_s, rate_shortfalls(self.testbed.links.rate_bit_s, trains)
        if shortfalls and arm not in self.below_rate:
            self.below_rate.add(arm)
            self.observer.note(
                f"arm {arm}: its path does not have its {rate_text(rate_bit_s)} ({where}): {'; '.join(shortfalls)}"
            )

    def _note_violations(self, arm: Arm, contradictions: Sequence[str], where: str) -> None:
        if not contradictions:
            return
        sentence = f"arm {arm} is not what it is called ({where}): {'; '.join(contradictions)}"
        self._trouble(arm, InvalidError(sentence))
        self.observer.note(f"{sentence}; it is measured no further")
