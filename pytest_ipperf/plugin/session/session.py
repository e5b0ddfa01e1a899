"""The session: what one pytest process knows. Settings in, plan after the collection, results as they come."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_ipperf.core.design.cell import LEAN, Arm, Cell, Workload
from pytest_ipperf.core.design.plan import Plan, plan_for
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.lab.agents.file_descriptors import enough_descriptors
from pytest_ipperf.lab.agents.leases import new_owner
from pytest_ipperf.lab.inventory.limits import check_rebootable
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from pytest_ipperf.plugin.options.settings import Settings
from pytest_ipperf.plugin.session.baseline import Baseline
from pytest_ipperf.plugin.session.invocation import Invocation, from_controller
from pytest_ipperf.plugin.session.resume import ResumedSession
from pytest_ipperf.protocols import application, flow
from pytest_ipperf.store import run_folder

if TYPE_CHECKING:
    from pytest_ipperf.core.portable.errors import IpperfError
    from pytest_ipperf.experiment import Measurement

# Building a testbed, proving its paths, starting its servers; and what a run costs beside its connections.
_EPOCH_S = 0.6
# Until a host is back that is started anew: of physical machines many take longer, of virtual ones most do not.
_REBOOT_S = 60.0
_RUN_S = 0.05
# What a run of a flow takes beside its traffic.
_FLOW_S = 0.3
# Looking whether an arm's path has the rate of its links.
_TRAINS_S = 0.3
# The IMAP users of paper 000.
_USERS = 500
_CACHE_KEY = "ipperf/seconds"


def default_testbed() -> str:
    """Return the better of the built-in testbeds that works here."""
    return "loopback" if unusable() else "lab"


class Session:
    """One pytest process that measures; `facts` are those of all its processes."""

    def __init__(
        self, config: pytest.Config, settings: Settings, facts: Invocation, resumed: ResumedSession | None = None
    ) -> None:
        self.config = config
        # The order is that of the session that is resumed, whose plan this one ends.
        self.settings = replace(settings, seed=resumed.kept.facts["seed"]) if resumed else settings
        self.resumed = resumed
        self.is_worker = from_controller(config) is not None
        self.lab_trouble = unusable()
        self.folder = run_folder(settings.records, facts.at_s, facts.token)
        self.writer = os.environ.get("PYTEST_XDIST_WORKER", "main") if self.is_worker else "main"
        self.command = facts.command
        self.owner = new_owner(self.command)
        self.plans: dict[Workload, Plan] = {}
        self.questions: dict[Cell, tuple[Question, ...]] = {}
        self.items: dict[str, str] = {}  # the cells that are to be measured, by pytest's names of their items
        self.left_out_lines: list[str] = []
        self.left_out: list[Cell] = []  # of what was asked for
        self.mistake = ""  # that a worker found
        self.states: dict[Workload, str] = {}
        self.password = secrets.token_hex(8)
        self.results: dict[Workload, Measurement | IpperfError] = {}
        self.measuring_since: float | None = None
        self.baseline: Baseline = None

    @property
    def default_testbed(self) -> str:
        """The better of the built-in testbeds that works here."""
        return default_testbed()

    @property
    def testbeds(self) -> list[Testbed]:
        """The testbeds that this session may measure on."""
        names = self.settings.testbeds or (self.default_testbed,)
        return [self.settings.inventory[name] for name in names]

    @cached_property
    def selected(self) -> frozenset[str]:
        """The names of these testbeds; every item asks, and there may be thousands of either."""
        return frozenset(testbed.name for testbed in self.testbeds)

    def lacks(self, testbed: Testbed, arm: Arm, transport_name: str) -> str:
        """Why that arm cannot be measured on that testbed; empty where it can, as far as that is known here.

        `transport_name` stands for the transport in the sentence.
        """
        if lacking := testbed.lacks(arm, transport_name):
            instead = self.lab_trouble and not self.settings.testbeds and arm.transport != "native"
            return f"{lacking}, and testbed lab cannot be built here: {self.lab_trouble}" if instead else lacking
        if arm.transport == "native" or not testbed.is_lab:
            return ""
        why = lab_backend(testbed, self.settings.backend)[1]
        return f"testbed {testbed.name} cannot have {transport_name} here: {why}" if why else ""

    def make_plans(self, selected: Iterable[tuple[Cell, Collection[Question]]]) -> None:
        """The plan of every workload that the selected cells need, the reference included; and what is asked of them.

        Several tests may ask different questions of a cell. The controller of xdist knows none of them.
        """
        arms: dict[Workload, set[Arm]] = {}
        for cell, questions in selected:
            arms.setdefault(cell.workload, {self.settings.reference}).add(cell.arm)
            self.questions[cell] = tuple(dict.fromkeys((*self.questions.get(cell, ()), *questions)))
        self.plans = {
            workload: plan_for(workload, sorted(needed), self.settings.design, self.settings.seed)
            for workload, needed in arms.items()
        }
        if self.resumed is not None:
            asked = {workload: self.questions_of(workload) for workload in self.plans}
            self.resumed.select(self.plans.values(), asked, self.settings)

    def reused_from(self, workload: Workload) -> str:
        """The earlier session from which a workload is reused; empty where this one measures it."""
        return self.resumed.source_of(workload) if self.resumed else ""

    @property
    def to_measure(self) -> list[Plan]:
        """The plans of what is not reused."""
        return [plan for workload, plan in self.plans.items() if not self.reused_from(workload)]

    def check_client(self) -> None:
        """UsageError before anything is measured, where the packages of the library client are not here.

        xdist has no way to end a session from a worker in a sentence: there the items say it.
        """
        if self.settings.client == LEAN or self.is_worker:
            return
        from pytest_ipperf.lab.deploy.install import check_library  # noqa: PLC0415 - what only this client needs

        for protocol in {workload.protocol for workload in self.plans if not flow(workload.protocol)}:
            check_library(application(protocol))

    def check_reboot(self) -> None:
        """UsageError before anything is measured, where hosts are to be started anew that cannot be.

        As for the client, of a worker's items each says it.
        """
        if self.settings.reboot and not self.is_worker:
            for name in dict.fromkeys(plan.workload.testbed for plan in self.to_measure):
                check_rebootable(self.settings.inventory[name])

    def check_descriptors(self) -> None:
        """LabError before anything is measured, where this process may not have the files open that testbeds take.

        As for the client, of a worker's items each says it.
        """
        for name in [] if self.is_worker else dict.fromkeys(plan.workload.testbed for plan in self.to_measure):
            enough_descriptors(self.settings.inventory[name])

    def questions_of(self, workload: Workload) -> dict[Arm, tuple[Question, ...]]:
        """What the selected tests ask of a workload's arms."""
        return {cell.arm: questions for cell, questions in self.questions.items() if cell.workload == workload}

    def users_of(self, protocol: str) -> int:
        """Accounts of a server for all numbers of connections of this session, each of which has one of its own."""
        if flow(protocol) or not application(protocol).accounts:
            return 0
        return max(_USERS, *(workload.connections for workload in self.plans if workload.protocol == protocol))

    def forecast_s(self, plan: Plan) -> float:
        """Seconds that a plan will take up to its first look: as long as last time, else by rule of thumb."""
        if self.reused_from(plan.workload):
            return 0.0
        earlier = self._seconds().get(self._key(plan))
        if earlier is not None:
            return float(earlier)
        design, workload = self.settings.design, plan.workload
        rate_bit_s = self.settings.inventory[workload.testbed].links.rate_bit_s
        trains_s = _TRAINS_S * len(plan.arms) if rate_bit_s else 0.0
        run_s = design.warmup_s + design.run_s + _FLOW_S
        if not flow(workload.protocol):
            run_s = _RUN_S + self._bursts_s(workload, rate_bit_s)
        rebooting_s = (design.epochs - 1) * _REBOOT_S if self.settings.reboot else 0.0
        return design.epochs * (_EPOCH_S + trains_s) + rebooting_s + plan.first_runs * run_s

    def _bursts_s(self, workload: Workload, rate_bit_s: float) -> float:
        """Seconds of a run's connections, of which the links' rate may be what takes longest."""
        connections = workload.connections * self.settings.design.bursts(workload.connections)
        arriving_s = connections / workload.rate_per_s if workload.rate_per_s else 0.0
        sending_s = 8 * connections * workload.payload_bytes / rate_bit_s if rate_bit_s else 0.0
        return max(connections * application(workload.protocol).typical_s, arriving_s, sending_s)

    def remember_s(self, plan: Plan, seconds: float) -> None:
        """Keeps how long the first look took, for the next forecast; workers leave the cache to the main process."""
        if self.cache is not None and not self.is_worker:
            self.cache.set(_CACHE_KEY, {**self._seconds(), self._key(plan): round(seconds, 2)})

    @property
    def cache(self) -> pytest.Cache | None:
        """What is remembered from one session to the next, where pytest may."""
        return getattr(self.config, "cache", None)  # -p no:cacheprovider takes the attribute away

    def _seconds(self) -> dict[str, float]:
        return dict(self.cache.get(_CACHE_KEY, {})) if self.cache is not None else {}

    def _key(self, plan: Plan) -> str:
        settings = self.settings
        rebooting = "/reboot" if settings.reboot else ""
        plain = f"{plan.workload}/{settings.design.name}/{len(plan.arms)}/{settings.server}/{settings.deadline_s:g}"
        return plain + rebooting

    def budget_refuses(self, what: str, needed_s: float) -> str:
        """Why the budget has no time for something that takes so long; empty where it has, or there is none.

        Its clock starts when the first workload asks.
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
            f"of the budget of {seconds_text(budget_s)} there are {seconds_text(left_s)} left and {what} needs about "
            f"{seconds_text(needed_s)}"
        )
