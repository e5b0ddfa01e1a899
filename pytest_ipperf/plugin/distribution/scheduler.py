"""Distribute items under pytest-xdist. One testbed is only ever measured by one worker at a time.

A scheduler of our own, since xdist 3.8 with pytest 9.2 silently ignores `loadgroup`, and its scope schedulers hang
after the crash of a worker. Where nothing is measured, xdist distributes as it always does.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from xdist.report import report_collection_diff
from xdist.workermanage import parse_tx_spec_config

from pytest_ipperf.core.design.cell import MODE_PATTERN, Arm, Cell
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import levels_from_text
from pytest_ipperf.core.portable.units import parse_bytes
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.plugin.collect.collection import cell_from
from pytest_ipperf.plugin.display.forecast import duration_text
from pytest_ipperf.plugin.distribution.worker_progress import WorkerProgress
from pytest_ipperf.plugin.options.declarations import CLIENTS
from pytest_ipperf.plugin.options.settings import read_settings
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.stash import session_of
from pytest_ipperf.plugin.summary import plan_lines
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS


def independent(testbeds: Iterable[Testbed]) -> list[set[str]]:
    """The testbeds' names in groups; two of a group share a machine or a link, directly or through others."""
    groups: list[tuple[set[str], set[str]]] = []
    for testbed in testbeds:
        names, guarded = {testbed.name}, set(testbed.guarded)
        apart = []
        for group in groups:
            if group[1] & guarded:
                names |= group[0]
                guarded |= group[1]
            else:
                apart.append(group)
        groups = [*apart, (names, guarded)]
    return [names for names, _ in groups]


def count_independent(config: pytest.Config) -> int | None:
    """Return how many of the named testbeds can be measured on side by side; None where they cannot be read.

    A misspelt name is reported when pytest configures.
    """
    try:
        settings = read_settings(config, seed=0)
    except UsageError:
        return None
    return len(independent(settings.inventory[name] for name in settings.testbeds)) or None


def cell_pattern(testbeds: Iterable[str]) -> re.Pattern[str]:
    """What a cell looks like in a node id, the one thing that workers send of an item before it runs.

    Other parameters may stand before it and after it.
    """
    beds, protocols, clients, transports = (
        "|".join(map(re.escape, names)) for names in (testbeds, PROTOCOLS, CLIENTS, TRANSPORTS)
    )
    arm = rf"ipv[46](?:-(?:{transports}))?(?:-twin)?"
    payload = rf"(\d+[kmg]?){MODE_PATTERN}"
    own = r"((?:-(?!ipv[46]-)[a-z0-9.]+)*?)"
    return re.compile(rf"[\[-]({beds})-({protocols})(?:-(?:{clients}))?-c(\d+)-{payload}{own}-({arm})[-\]]")


def cells_in(session: Session, nodeids: Iterable[str]) -> dict[str, Cell]:
    """Return the cells among these items, by their node ids."""
    pattern = cell_pattern(session.settings.inventory)
    cells = {}
    for nodeid in nodeids:
        if (match := pattern.search(nodeid)) is None:
            continue
        testbed, protocol, connections, payload, own, name = match.groups()
        arm = Arm.parse(name)
        cells[nodeid] = cell_from(
            session,
            testbed=testbed,
            protocol=protocol,
            connections=int(connections),
            payload=parse_bytes(payload),
            ipver=arm.ipver,
            transport=arm.transport,
            twin=arm.twin,
            factors=levels_from_text(PROTOCOLS[protocol].factors, own.removeprefix("-")),
        )
    return cells


def replace_scheduler(config: pytest.Config, nodeids: Sequence[str]) -> None:
    """Put our scheduler in the place of the one that xdist has, where the node ids have cells. UsageError under `each`.

    It is done when the first worker has collected: nothing is scheduled yet, and before nobody knows that this session
    measures.
    """
    session = session_of(config)
    if not cells_in(session, nodeids):
        return
    if config.getoption("dist") == "each":
        raise UsageError("--dist=each would measure on one testbed from several workers at once; leave it out")
    loop: Any = config.pluginmanager.get_plugin("dsession")
    theirs = getattr(loop, "sched", None)
    if theirs is None:
        raise UsageError("this version of pytest-xdist keeps its scheduler where nobody can replace it; leave out -n")
    loop.sched = TestbedScheduling(config, session.settings.inventory, PlanReport(config, session).report_plan)
    progress = WorkerProgress(config, session, loop)
    for node in theirs.nodes:
        loop.sched.add_node(node)
        progress.pytest_testnodeready(node)
    config.pluginmanager.register(progress, "ipperf-worker-progress")


class PlanReport:
    """Prints the plan of a session whose workers measure, in their controller."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config = config
        self._session = session

    def report_plan(self, nodeids: Sequence[str]) -> None:
        """The plan and its forecast, which only the workers have made: from their node ids, before the first run."""
        cells = cells_in(self._session, nodeids)
        self._session.make_plans((cell, ()) for cell in cells.values())
        self._session.items = {nodeid: str(cell) for nodeid, cell in cells.items()}
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for line in [*plan_lines(self._config), *self._side_by_side()]:
                reporter.write_line(line)

    def _side_by_side(self) -> list[str]:
        session = self._session
        seconds: dict[str, float] = {}
        for workload, plan in session.plans.items():
            seconds[workload.testbed] = seconds.get(workload.testbed, 0) + session.forecast_s(plan)
        groups = independent(session.settings.inventory[name] for name in seconds)
        workers = min(len(groups), len(parse_tx_spec_config(self._config)))
        if workers < 2:
            return []
        longest = max(sum(seconds[name] for name in group) for group in groups)
        about = duration_text(session, max(longest, sum(seconds.values()) / workers))
        return [f"ipperf: {workers} workers measure side by side: about {about}"]


class TestbedScheduling:
    """The `Scheduling` protocol of xdist over units: a group of testbeds, or a file of other tests.

    A unit is never split between workers that live; what a worker that died leaves of it goes to another.
    """

    __test__ = False

    def __init__(
        self, config: pytest.Config, inventory: Mapping[str, Testbed], begin: Callable[[Sequence[str]], None]
    ) -> None:
        self.config = config
        self.collection: list[str] | None = None
        self._inventory = inventory
        self._begin = begin
        self._pattern = cell_pattern(inventory)
        self._unit_of_testbed: dict[str, str] = {}
        self._expected = len(parse_tx_spec_config(config))
        self._collections: dict[Any, list[str]] = {}
        self._waiting: OrderedDict[str, list[int]] = OrderedDict()
        self._assigned: dict[Any, list[int]] = {}
        self._nodes: list[Any] = []

    @property
    def nodes(self) -> list[Any]:
        """All workers that live."""
        return list(self._nodes)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every worker of the start has sent its collection; those that have ended since do not undo that."""
        return self.collection is not None or len(self._collections) >= self._expected

    @property
    def has_pending(self) -> bool:
        """Whether anything is still to be run."""
        return bool(self._waiting) or any(self._assigned.values())

    @property
    def tests_finished(self) -> bool:
        """Whether all is done."""
        return self.collection is not None and not self.has_pending

    def testbed_of(self, nodeid: str) -> str:
        """The testbed that an item measures on; empty for every other test."""
        match = self._pattern.search(nodeid)
        return match[1] if match else ""

    def add_node(self, node: Any) -> None:
        """A worker has come."""
        self._nodes.append(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected; a later one must find what the first ones found."""
        if self.collection is not None and list(collection) != self.collection:
            raise RuntimeError(report_collection_diff(self.collection, collection, "the others", node.gateway.id))
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """All have collected, or a replacement has: give out work, a first unit to everyone before anyone's second."""
        if self.collection is None:
            self.collection = self._agreed()
            self._make_units(self.collection)
            self._begin(self.collection)
        for node in self.nodes:
            if not self._assigned.get(node):
                self._assign(node)
        for node in self.nodes:
            self._top_up(node)

    def _agreed(self) -> list[str]:
        """What all workers have collected; nothing where they differ, which ends the session."""
        (first, found), *others = self._collections.items()
        for node, collection in others:
            difference = report_collection_diff(found, collection, first.gateway.id, node.gateway.id)
            if difference:
                report = pytest.CollectReport(node.gateway.id, "failed", difference, [])
                self.config.hook.pytest_collectreport(report=report)
                return []
        return found

    def _make_units(self, collection: Sequence[str]) -> None:
        names = dict.fromkeys(filter(None, map(self.testbed_of, collection)))
        for group in independent(self._inventory[name] for name in names):
            self._unit_of_testbed |= dict.fromkeys(group, f"testbeds {' '.join(sorted(group))}")
        for index, nodeid in enumerate(collection):
            self._waiting.setdefault(self._unit(nodeid), []).append(index)

    def _unit(self, nodeid: str) -> str:
        return self._unit_of_testbed.get(self.testbed_of(nodeid), nodeid.partition("::")[0])

    def _assign(self, node: Any) -> None:
        if self._waiting and node in self._collections and not node.shutting_down:
            _, unit = self._waiting.popitem(last=False)
            self._assigned.setdefault(node, []).extend(unit)
            node.send_runtest_some(unit)

    def _top_up(self, node: Any) -> None:
        # A worker starts an item only when it knows the next one, or that there is none.
        if node.shutting_down or node not in self._collections:
            return
        own = self._assigned.setdefault(node, [])
        while len(own) <= 1 and self._waiting:
            self._assign(node)
        if len(own) <= 1 and not self._waiting:
            node.shutdown()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """An item is done."""
        del duration
        self._assigned[node].remove(item_index)
        self._top_up(node)

    def mark_test_pending(self, item: str) -> None:
        """Asked for only to repeat an item, which a measurement must not be."""
        raise NotImplementedError(item)

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Asked for only to steal work, which would split a testbed."""
        raise NotImplementedError(indices)

    def remove_node(self, node: Any) -> str | None:
        """A worker has gone; returns the item that it died in, and puts the rest of its work back."""
        if node not in self._nodes:
            raise KeyError(node)  # xdist expects it of a worker that died before it was ready
        self._nodes.remove(node)
        self._collections.pop(node, None)
        own = self._assigned.pop(node, [])
        if not own or self.collection is None:
            return None
        died_in, *rest = own
        left: OrderedDict[str, list[int]] = OrderedDict()
        for index in rest:
            left.setdefault(self._unit(self.collection[index]), []).append(index)
        for unit, indices in left.items():
            self._waiting[unit] = indices + self._waiting.get(unit, [])
        return self.collection[died_in]
