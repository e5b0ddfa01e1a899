"""Distribution: what happens under pytest-xdist. One testbed is only ever measured by one worker at a time.

A scheduler of our own, since xdist 3.8 with pytest 9.2 silently ignores `loadgroup`, and its scope schedulers hang
after the crash of a worker. Where nothing is measured, xdist distributes as it always does.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import pytest
from xdist.report import report_collection_diff
from xdist.workermanage import parse_tx_spec_config

from pytest_ipperf.core.cell import MODE_PATTERN, Arm, Cell
from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.factor import levels_of_text
from pytest_ipperf.core.units import parse_bytes
from pytest_ipperf.lab.testbed import Testbed
from pytest_ipperf.plugin import summary
from pytest_ipperf.plugin.aliases import worded
from pytest_ipperf.plugin.collection import cell_from
from pytest_ipperf.plugin.declaring import CLIENTS
from pytest_ipperf.plugin.forecast import duration_text
from pytest_ipperf.plugin.options import read_settings
from pytest_ipperf.plugin.session import SESSION, Session
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


def auto_workers(config: pytest.Config) -> int | None:
    """How many workers `-n auto` means; None leaves it to xdist, which counts the processors.

    Only testbeds that somebody named, by `--testbed` or in the ini-file, say that this session is for measuring. What
    is misspelt here is told when pytest configures.
    """
    if config.getoption("numprocesses") != "auto" or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    try:
        settings = read_settings(config, seed=0)
    except UsageError:
        return None
    return len(independent(settings.inventory[name] for name in settings.testbeds)) or None


def cell_pattern(testbeds: Iterable[str]) -> re.Pattern[str]:
    """What a cell looks like in a node id, the one thing that workers tell of an item before it runs.

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
            factors=levels_of_text(PROTOCOLS[protocol].factors, own.removeprefix("-")),
        )
    return cells


class Distribution:
    """The hooks of the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._session = config.stash[SESSION]

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """What a worker must know: it must make the same plan and write to the same folder."""
        known = self._session
        node.workerinput["ipperf"] = {
            "seed": known.settings.seed,
            "folder": str(known.folder),
            "resume": str(known.earlier.kept.folder) if known.earlier else "",
            "command": known.command,
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_xdist_make_scheduler(self) -> Generator[None, Any, EitherScheduling]:
        """Ours beside that of xdist, or of whoever else has one: what was collected decides."""
        theirs = yield
        ours = TestbedScheduling(self._config, self._session.settings.inventory, self._tell_plan)
        return EitherScheduling(ours, theirs, each=self._config.getoption("dist") == "each")

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear of a worker that ended in order which arms were left out, as all do, and what it had to measure anew.

        UsageError for a mistake that it found: then none of them has selected anything.
        """
        told = getattr(node, "workeroutput", {}).get("ipperf")
        if told is None:
            return
        if told["mistake"]:
            raise pytest.UsageError(told["mistake"])
        self._session.lacking = told["lacking"]
        if self._session.earlier is not None:
            self._session.earlier.note_anew(told["anew"])

    def _tell_plan(self, nodeids: Sequence[str]) -> None:
        """The plan and its forecast, which only the workers have made: from their node ids, before the first run."""
        cells = cells_in(self._session, nodeids)
        self._session.make_plans((cell, ()) for cell in cells.values())
        self._session.items = {nodeid: str(cell) for nodeid, cell in cells.items()}
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for line in [*summary.plan(self._config), *self._side_by_side()]:
                reporter.write_line(worded(self._config, line))

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


class HandingOver:
    """The hook of a worker: what the controller cannot know, as it collects nothing."""

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Which arms were left out, and what could not be taken over."""
        config: Any = session.config  # xdist has put the attribute there
        known = config.stash[SESSION]
        anew = known.earlier.told_anew() if known.earlier else {}
        config.workeroutput["ipperf"] = {"lacking": known.lacking, "anew": anew, "mistake": known.mistake}


class EitherScheduling:
    """Our scheduler, until a first collection shows that nothing is to be measured: from then on that of xdist.

    Whatever is not told here goes to the one in use, so that xdist, and plugins that are handed the scheduler, meet
    what they would meet without us.
    """

    def __init__(self, ours: TestbedScheduling, theirs: Any, *, each: bool) -> None:
        self._ours, self._theirs, self._each = ours, theirs, each
        self._used: Any = ours
        self._decided = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._used, name)

    @property  # type: ignore[misc]  # `-v` prints the name of the scheduler's class
    def __class__(self) -> type:
        return type(self._used)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected."""
        measures = any(map(self._ours.testbed_of, collection))
        if measures and self._each:
            raise pytest.UsageError(
                "--dist=each would measure on one testbed from several workers at once; leave it out"
            )
        if not self._decided and not measures:
            self._used = self._theirs
            for known in self._ours.nodes:
                self._theirs.add_node(known)
        self._decided = True
        self._used.add_node_collection(node, collection)


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
        self._given: dict[Any, list[int]] = {}
        self._nodes: list[Any] = []

    @property
    def nodes(self) -> list[Any]:
        """All workers that live."""
        return list(self._nodes)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every worker of the start has told what it found; those that have ended since do not undo that."""
        return self.collection is not None or len(self._collections) >= self._expected

    @property
    def has_pending(self) -> bool:
        """Whether anything is still to be run."""
        return bool(self._waiting) or any(self._given.values())

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
            if not self._given.get(node):
                self._give(node)
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

    def _give(self, node: Any) -> None:
        if self._waiting and node in self._collections and not node.shutting_down:
            _, unit = self._waiting.popitem(last=False)
            self._given.setdefault(node, []).extend(unit)
            node.send_runtest_some(unit)

    def _top_up(self, node: Any) -> None:
        # A worker starts an item only when it knows the next one, or that there is none.
        if node.shutting_down or node not in self._collections:
            return
        own = self._given.setdefault(node, [])
        while len(own) <= 1 and self._waiting:
            self._give(node)
        if len(own) <= 1 and not self._waiting:
            node.shutdown()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """An item is done."""
        del duration
        self._given[node].remove(item_index)
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
        own = self._given.pop(node, [])
        if not own or self.collection is None:
            return None
        died_in, *rest = own
        left: OrderedDict[str, list[int]] = OrderedDict()
        for index in rest:
            left.setdefault(self._unit(self.collection[index]), []).append(index)
        for unit, indices in left.items():
            self._waiting[unit] = indices + self._waiting.get(unit, [])
        return self.collection[died_in]
