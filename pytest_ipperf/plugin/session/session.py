"""The measuring session of one pytest process: settings, then the plans after collection, then results."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.plan import Plan, confirming_plan, plan_for
from pytest_ipperf.core.design.question import FAILED_SHARE, Question
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.lab.agents.file_descriptors import enough_descriptors
from pytest_ipperf.lab.agents.leases import new_owner
from pytest_ipperf.lab.inventory.limits import check_rebootable
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from pytest_ipperf.plugin.options.settings import Settings
from pytest_ipperf.plugin.session.baseline import Baseline
from pytest_ipperf.plugin.session.forecast.cache_file import CacheFile
from pytest_ipperf.plugin.session.forecast.time_forecast import estimated_s
from pytest_ipperf.plugin.session.invocation import Invocation, from_controller
from pytest_ipperf.plugin.session.resume import ResumedSession
from pytest_ipperf.protocols import PROTOCOLS, application
from pytest_ipperf.store import run_folder

if TYPE_CHECKING:
    from pytest_ipperf.core.portable.errors import IpperfError
    from pytest_ipperf.experiment import FreshEpochs, Measurement

# The IMAP users of paper 000.
_USERS = 500


def default_testbed() -> str:
    """Return `lab` if it can be built here, else `loopback`."""
    return "loopback" if unusable() else "lab"


@dataclass(frozen=True, slots=True)
class PlanTotal:
    """Number of plans, with their runs and expected seconds up to their first looks."""

    plans: int = 0
    runs: int = 0
    seconds: float = 0.0

    def __add__(self, other: PlanTotal) -> PlanTotal:
        """Return the total of both."""
        return PlanTotal(self.plans + other.plans, self.runs + other.runs, self.seconds + other.seconds)


class Session:
    """The session of one pytest process; `facts` are shared by all processes of the invocation."""

    def __init__(
        self, config: pytest.Config, settings: Settings, facts: Invocation, resumed: ResumedSession | None = None
    ) -> None:
        self.config = config
        # A resumed session keeps its order of measurement.
        self.settings = replace(settings, seed=resumed.kept.facts["seed"]) if resumed else settings
        self.resumed = resumed
        self.is_worker = from_controller(config) is not None
        self.lab_trouble = unusable()
        self.folder = run_folder(settings.records, facts.at_s, facts.token)
        self.writer = os.environ.get("PYTEST_XDIST_WORKER", "main") if self.is_worker else "main"
        self.command = facts.command
        self.owner = new_owner(self.command)
        self.plans: dict[Workload, Plan] = {}  # without those of released workloads
        self.answers = 0
        self.alone: set[str] = set()  # node ids, without parameters, of tests that have limits alone
        self.items: dict[str, str] = {}  # the cells to measure, by node id
        self.left_out_lines: list[str] = []
        self.left_out: list[Cell] = []  # selected cells that cannot be measured here
        self.states: dict[Workload, str] = {}
        self.password = secrets.token_hex(8)
        self.results: dict[Workload, Measurement | IpperfError] = {}
        self._questions: dict[Workload, dict[Arm, tuple[Question, ...]]] = {}
        self._forecasts: dict[Workload, float] = {}
        self._most_connections: dict[str, int] = {}  # by protocol
        self._released: dict[Workload, tuple[Arm, ...]] = {}
        self._released_arms: dict[tuple[Arm, ...], tuple[Arm, ...]] = {}
        self.measured = PlanTotal()
        self._planned: tuple[int, PlanTotal] | None = None
        self.first_looks_s = CacheFile(config, "first-looks-1", 1)  # the seconds of each, for the next forecast
        self.fresh_epochs: dict[Workload, list[FreshEpochs]] = {}  # sets of different arms, in their order
        self.fresh_from: dict[str, str] = {}  # the earlier session that measured a set, by its plan's name
        self.measuring_since: float | None = None
        self.baseline: Baseline = None

    @property
    def default_testbed(self) -> str:
        """Name of the testbed used by default: `lab` if it can be built here, else `loopback`."""
        return default_testbed()

    @property
    def testbeds(self) -> list[Testbed]:
        """Testbeds that this session may measure on."""
        names = self.settings.testbeds or (self.default_testbed,)
        return [self.settings.inventory[name] for name in names]

    @cached_property
    def selected(self) -> frozenset[str]:
        """Names of these testbeds; cached, as there may be thousands of testbeds and of items that need them."""
        return frozenset(testbed.name for testbed in self.testbeds)

    def lacks(self, testbed: Testbed, arm: Arm, transport_name: str) -> str:
        """Return why an arm cannot be measured on a testbed; empty if nothing is known against it.

        `transport_name` stands for the transport in the message.
        """
        if lacking := testbed.lacks(arm, transport_name):
            instead = self.lab_trouble and not self.settings.testbeds and arm.transport != "native"
            return f"{lacking}, and testbed lab cannot be built here: {self.lab_trouble}" if instead else lacking
        if arm.transport == "native" or not testbed.is_lab:
            return ""
        why = lab_backend(testbed, self.settings.backend)[1]
        return f"testbed {testbed.name} cannot have {transport_name} here: {why}" if why else ""

    def make_plans(
        self, selected: Iterable[tuple[Cell, Collection[Question]]], alone: Collection[Cell] = frozenset()
    ) -> None:
        """Make the plan of every workload of the selected cells, with the reference if needed, and collect questions.

        Several tests may ask different questions of a cell. The controller of xdist knows none of them; of the cells in
        `alone` it knows that only limits are asked. `answers` is the number of answers asked for: one for each cell, or
        more if several metrics of it are judged; failed connections do not count, as all tests ask about them at a
        fifth of the level.
        """
        arms: dict[Workload, set[Arm]] = {}
        for cell, questions in selected:
            arms.setdefault(cell.workload, set()).add(cell.arm)
            if cell in alone:
                continue
            if not questions or any(question.compares for question in questions):
                arms[cell.workload].add(cell.reference(self.settings.reference))
            asked = self._questions.setdefault(cell.workload, {})
            asked[cell.arm] = tuple(dict.fromkeys((*asked.get(cell.arm, ()), *questions)))
        self.plans = {
            workload: plan_for(workload, sorted(needed), self.design_of(workload), self.settings.seed)
            for workload, needed in arms.items()
        }
        for workload in self.plans:
            most = self._most_connections.get(workload.protocol, 0)
            self._most_connections[workload.protocol] = max(most, workload.connections)
        of_metrics = (
            {(question.metric, question.tail) for question in questions if question.metric != FAILED_SHARE}
            for questions in self.questions.values()
        )
        self.answers = sum(map(len, of_metrics))
        self._forecasts.clear()
        if self.resumed is not None:
            self.resumed.select(
                self.plans.values(), {each: self.questions_of(each) for each in self.plans}, self.settings
            )

    def design_of(self, workload: Workload) -> Design:
        """Return the session's design as it applies to a workload: that of its study, with long runs in parts."""
        protocol, compared = PROTOCOLS[workload.protocol], workload.against.partition("_")[0]
        studies = (factor.study for factor in protocol.factors if factor.name == compared)
        return self.settings.design.for_study(next(studies, protocol.study)).in_parts(protocol.longest_run_s)

    def reused_from(self, workload: Workload) -> str:
        """Return the earlier session from which a workload is reused; empty if this session measures it."""
        return self.resumed.source_of(workload) if self.resumed else ""

    @property
    def to_measure(self) -> list[Plan]:
        """Plans of the workloads that are neither reused nor released."""
        return [plan for workload, plan in self.plans.items() if not self.reused_from(workload)]

    def check_client(self) -> None:
        """Raise UsageError, before anything is measured, if packages of the library client are missing.

        Not in a worker of xdist, which cannot end the session with a message; its items report the error.
        """
        if self.settings.client == LEAN or self.is_worker:
            return
        from pytest_ipperf.lab.deploy.install import check_library  # noqa: PLC0415 - needed only by this client

        for protocol in {workload.protocol for workload in self.plans if workload.client != LEAN}:
            check_library(application(protocol))

    def check_reboot(self) -> None:
        """Raise UsageError, before anything is measured, if hosts to be rebooted have no command for it.

        In a worker, as for the client, the items report the error.
        """
        if self.settings.reboot and not self.is_worker:
            for name in dict.fromkeys(plan.workload.testbed for plan in self.to_measure):
                check_rebootable(self.settings.inventory[name])

    def check_descriptors(self) -> None:
        """Raise LabError, before anything is measured, if this process may not open as many files as testbeds need.

        In a worker, as for the client, the items report the error.
        """
        for name in [] if self.is_worker else dict.fromkeys(plan.workload.testbed for plan in self.to_measure):
            enough_descriptors(self.settings.inventory[name])

    @property
    def questions(self) -> dict[Cell, tuple[Question, ...]]:
        """Questions of the selected tests for each cell that is compared, or whose questions only a worker knows."""
        return {
            Cell(workload, arm): questions
            for workload, asked in self._questions.items()
            for arm, questions in asked.items()
        }

    def questions_of(self, workload: Workload) -> dict[Arm, tuple[Question, ...]]:
        """Return the questions of the selected tests for each arm of a workload; none for a released one."""
        return dict(self._questions.get(workload, {}))

    def release(self, workload: Workload) -> None:
        """Release what is kept of a workload to measure it: all but its arms, from which its plan can be made anew.

        The controller of xdist, which measures nothing, keeps nothing.
        """
        found, plan = self.results.pop(workload, None), self.plans.pop(workload, None)
        if plan is None:
            return
        if found is not None:
            self._released[workload] = self._released_arms.setdefault(plan.arms, plan.arms)
        for kept in (self._questions, self._forecasts, self.states, self.fresh_epochs):
            kept.pop(workload, None)

    def is_released(self, workload: Workload) -> bool:
        """Return whether a workload has been measured and its measurement is only in the records."""
        return workload in self._released

    def plan_of(self, workload: Workload) -> Plan:
        """Return the plan of a workload; that of a released one is made anew."""
        if workload in self.plans:
            return self.plans[workload]
        return plan_for(workload, self._released[workload], self.design_of(workload), self.settings.seed)

    @property
    def planned(self) -> PlanTotal:
        """Total of the plans to measure, those that were measured included.

        It is counted again only where a workload that was to be reused cannot be, as there may be thousands.
        """
        not_reused = len(self.resumed.not_reused) if self.resumed else 0
        if self._planned is None or self._planned[0] != not_reused:
            left = [plan for plan in self.to_measure if plan.workload not in self.results]
            self._planned = not_reused, sum(map(self.total_of, left), self.measured)
        return self._planned[1]

    def total_of(self, plan: Plan) -> PlanTotal:
        """Return a plan alone as a total."""
        return PlanTotal(1, plan.first_runs, self.forecast_s(plan))

    def note_measured(self, plan: Plan) -> None:
        """Count a plan that has been measured, with success or not; a reused one is not counted."""
        if not self.reused_from(plan.workload):
            self.measured += self.total_of(plan)

    @property
    def confirms(self) -> bool:
        """Whether a cell that exceeds its margin is measured again in this session; a night does so itself."""
        return self.settings.confirm and self.settings.design.judges and not self.settings.flags

    def users_of(self, protocol: str) -> int:
        """Return how many accounts a server needs so that each connection of the largest burst has its own."""
        if not PROTOCOLS[protocol].accounts:
            return 0
        least = _USERS if PROTOCOLS[protocol].kind.has_times else 1
        return max(least, self._most_connections.get(protocol, 0))

    def forecast_s(self, plan: Plan) -> float:
        """Return the expected seconds of a plan up to its first look: as long as last time, else an estimate."""
        if plan.workload not in self._forecasts:
            self._forecasts[plan.workload] = self._forecast_s(plan)
        return self._forecasts[plan.workload]

    def _forecast_s(self, plan: Plan) -> float:
        if self.reused_from(plan.workload):
            return 0.0
        begun = {workload: runs for workload, _, runs in self.resumed.begun()} if self.resumed else {}
        left = max(0.0, 1 - begun.get(plan.workload, 0) / plan.first_runs)
        return left * self._whole_s(plan)

    def confirming_s(self, plan: Plan) -> float:
        """Return the expected seconds of fresh epochs of all arms of a plan."""
        fresh = confirming_plan(plan.workload, plan.arms, self.design_of(plan.workload), plan.seed)
        return self._whole_s(plan) * self._estimated_s(fresh) / self._estimated_s(plan)

    def _whole_s(self, plan: Plan) -> float:
        """Return the seconds of a plan up to its first look, of which nothing has been measured."""
        earlier = self._earlier_s.get(self._key(plan))
        return float(earlier[-1]) if earlier else self._estimated_s(plan)

    def _estimated_s(self, plan: Plan) -> float:
        settings, links = self.settings, self.settings.inventory[plan.workload.testbed].links
        return estimated_s(plan, self.design_of(plan.workload), links, settings.models, reboot=settings.reboot)

    def remember_s(self, plan: Plan, seconds: float) -> None:
        """Cache the seconds of the first look for the next forecast; only the main process writes the cache."""
        if not self.is_worker:
            self.first_looks_s.append(self._key(plan), self.folder.name, round(seconds, 2))

    @cached_property
    def _earlier_s(self) -> dict[str, list[float]]:
        """Return what the cache holds at the first forecast; it may have thousands of entries."""
        return self.first_looks_s.read()

    def _key(self, plan: Plan) -> str:
        settings, design = self.settings, self.design_of(plan.workload)
        rebooting = "/reboot" if settings.reboot else ""
        # A design of the same name may have had another size in an earlier release.
        size = f"{design.name}-{design.epochs}x{design.blocks}"
        return f"{plan.workload}/{size}/{len(plan.arms)}/{settings.server}/{settings.deadline_s:g}{rebooting}"

    def budget_refuses(self, what: str, needed_s: float) -> str:
        """Return why the budget leaves too little time for `what`; empty if it leaves enough, or there is no budget.

        The clock of the budget starts with the first call.
        """
        budget_s = self.settings.budget_s
        if budget_s is None:
            return ""
        if self.measuring_since is None:
            self.measuring_since = time.monotonic()
        left_s = max(0.0, budget_s - (time.monotonic() - self.measuring_since))
        if needed_s <= left_s:
            return ""
        return (
            f"of the budget of {seconds_text(budget_s)}, {seconds_text(left_s)} are left and {what} needs about "
            f"{seconds_text(needed_s)}"
        )
