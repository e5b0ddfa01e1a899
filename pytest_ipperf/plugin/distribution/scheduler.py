"""Distribute items under pytest-xdist, so that only one worker at a time measures on a testbed.

The plugin has its own scheduler, since xdist 3.8 with pytest 9.2 silently ignores `loadgroup`, and xdist's scope
schedulers hang after the crash of a worker. Where nothing is measured, xdist distributes as usual.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from xdist.report import report_collection_diff
from xdist.workermanage import parse_tx_spec_config

from pytest_ipperf.core.design.cell import AGAINST, ARM_LEVEL_PATTERN, MODE_PATTERN, Arm, Cell
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import levels_from_text
from pytest_ipperf.core.portable.units import parse_bytes
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.plugin.collect.collection import cell_from, held_equal
from pytest_ipperf.plugin.display.forecast import duration_text
from pytest_ipperf.plugin.distribution.worker_progress import WorkerProgress
from pytest_ipperf.plugin.measure.release import PlanRelease
from pytest_ipperf.plugin.options.declarations import CLIENTS
from pytest_ipperf.plugin.options.settings import read_settings
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.stash import session_of
from pytest_ipperf.plugin.summary import plan_lines
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS


def independent(testbeds: Iterable[Testbed]) -> list[set[str]]:
    """Return the testbeds' names in groups; those of a group share machines or links, directly or through others."""
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
    """Return how many of the named testbeds can be measured in parallel; None if the settings are invalid.

    The error is reported in `pytest_configure`.
    """
    try:
        settings = read_settings(config, seed=0)
    except UsageError:
        return None
    return len(independent(settings.inventory[name] for name in settings.testbeds)) or None


def cell_pattern(testbeds: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds a cell in a node id, which is all that workers send of an item before it runs.

    Other parameters may precede and follow the cell.
    """
    beds, protocols, clients, transports = (
        "|".join(map(re.escape, names)) for names in (testbeds, PROTOCOLS, CLIENTS, TRANSPORTS)
    )
    arm = rf"ipv[46](?:-(?:{transports}))?(?:-{ARM_LEVEL_PATTERN})?(?:-twin)?"
    payload = rf"(\d+[kmg]?){MODE_PATTERN}"
    levels = rf"((?:-(?!ipv[46]-)[a-z0-9.]+)*?)(?:-{AGAINST}({ARM_LEVEL_PATTERN}))?"
    return re.compile(rf"[\[-]({beds})-({protocols})(?:-(?:{clients}))?-c(\d+)-{payload}{levels}-({arm})[-\]]")


def cells_in(session: Session, nodeids: Iterable[str]) -> dict[str, Cell]:
    """Return the cells of those items that measure, by node id."""
    pattern = cell_pattern(session.settings.inventory)
    cells = {}
    for nodeid in nodeids:
        if (match := pattern.search(nodeid)) is None:
            continue
        testbed, protocol, connections, payload, levels, against, name = match.groups()
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
            factors=levels_from_text(held_equal(protocol, against or ""), levels.removeprefix("-")),
            compared_with=against or "",
            compared_level=arm.level,
        )
    return cells


def replace_scheduler(config: pytest.Config, nodeids: Sequence[str]) -> None:
    """Replace xdist's scheduler by ours if there are cells among the node ids; raise UsageError under `--dist=each`.

    Called when the first worker has collected: only then is it known that the session measures, and nothing is
    scheduled yet.
    """
    session = session_of(config)
    if not cells_in(session, nodeids):
        return
    if config.getoption("dist") == "each":
        raise UsageError("--dist=each would measure on one testbed from several workers at once; leave it out")
    loop: Any = config.pluginmanager.get_plugin("dsession")
    replaced = getattr(loop, "sched", None)
    if replaced is None:
        raise UsageError("the scheduler of this version of pytest-xdist cannot be replaced; leave out -n")
    loop.sched = TestbedScheduling(config, session.settings.inventory, PlanReport(config, session).report_plan)
    progress = WorkerProgress(config, session, loop)
    for node in replaced.nodes:
        loop.sched.add_node(node)
        progress.pytest_testnodeready(node)
    config.pluginmanager.register(progress, "ipperf-worker-progress")


class PlanReport:
    """Plan of a session whose workers measure, printed by the controller."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config = config
        self._session = session

    def report_plan(self, nodeids: Sequence[str]) -> None:
        """Rebuild the plan, which only workers have made, from their node ids, and print it with its forecast."""
        cells = cells_in(self._session, nodeids)
        # Only a test of limits alone has an item for the reference; which others are, only the workers know.
        reference = self._session.settings.reference
        tests = {nodeid.partition("[")[0] for nodeid, cell in cells.items() if cell.arm == cell.reference(reference)}
        compared = {cell for nodeid, cell in cells.items() if nodeid.partition("[")[0] not in tests}
        self._session.make_plans(((cell, ()) for cell in cells.values()), alone={*cells.values()} - compared)
        self._session.items = {nodeid: str(cell) for nodeid, cell in cells.items()}
        self._config.pluginmanager.register(PlanRelease(self._session, cells), "ipperf-plan-release")
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

    A unit is never split between live workers; the items left by a worker that died go to another.
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
        """Live workers."""
        return list(self._nodes)

    @property
    def collection_is_completed(self) -> bool:
        """True if every initial worker has sent its collection, even if some have ended since."""
        return self.collection is not None or len(self._collections) >= self._expected

    @property
    def has_pending(self) -> bool:
        """True if any item is still to be run."""
        return bool(self._waiting) or any(self._assigned.values())

    @property
    def tests_finished(self) -> bool:
        """True if all items are done."""
        return self.collection is not None and not self.has_pending

    def testbed_of(self, nodeid: str) -> str:
        """Return the testbed on which an item measures; empty for an item that does not."""
        match = self._pattern.search(nodeid)
        return match[1] if match else ""

    def add_node(self, node: Any) -> None:
        """Add a new worker."""
        self._nodes.append(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Store a worker's collection; raise RuntimeError if a later worker's differs from the first ones'."""
        if self.collection is not None and list(collection) != self.collection:
            raise RuntimeError(report_collection_diff(self.collection, collection, "the others", node.gateway.id))
        self._collections[node] = self.collection or list(collection)

    def schedule(self) -> None:
        """Assign work once all workers, or a replacement, have collected: one unit to each before second ones."""
        if self.collection is None:
            self.collection = self._agreed()
            # One list for all: those of 50 workers with thousands of node ids would take more than all else.
            self._collections = dict.fromkeys(self._collections, self.collection)
            self._make_units(self.collection)
            self._begin(self.collection)
        for node in self.nodes:
            if not self._assigned.get(node):
                self._assign(node)
        for node in self.nodes:
            self._top_up(node)

    def _agreed(self) -> list[str]:
        """Return the collection of all workers; if they differ, report it, which ends the session, and return []."""
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
        # A worker starts an item only once it knows the next one, or that there is none.
        if node.shutting_down or node not in self._collections:
            return
        assigned = self._assigned.setdefault(node, [])
        while len(assigned) <= 1 and self._waiting:
            self._assign(node)
        if len(assigned) <= 1 and not self._waiting:
            node.shutdown()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Remove an item that is done, and assign more work."""
        del duration
        self._assigned[node].remove(item_index)
        self._top_up(node)

    def mark_test_pending(self, item: str) -> None:
        """Refuse to repeat an item: a measurement must not be repeated."""
        raise NotImplementedError(item)

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Refuse work stealing, which would split a testbed."""
        raise NotImplementedError(indices)

    def remove_node(self, node: Any) -> str | None:
        """Remove a worker and put its remaining work back; return the item in which it died, if any."""
        if node not in self._nodes:
            raise KeyError(node)  # xdist expects this for a worker that died before it was ready
        self._nodes.remove(node)
        self._collections.pop(node, None)
        assigned = self._assigned.pop(node, [])
        if not assigned or self.collection is None:
            return None
        died_in, *rest = assigned
        left: OrderedDict[str, list[int]] = OrderedDict()
        for index in rest:
            left.setdefault(self._unit(self.collection[index]), []).append(index)
        for unit, indices in left.items():
            self._waiting[unit] = indices + self._waiting.get(unit, [])
        return self.collection[died_in]
