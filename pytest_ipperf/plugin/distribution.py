"""Distribution: what happens under pytest-xdist. One testbed is only ever measured by one worker at a time.

A scheduler of our own, since xdist 3.8 with pytest 9.2 silently ignores `loadgroup`, and its scope schedulers hang
after the crash of a worker.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest
from xdist.report import report_collection_diff
from xdist.workermanage import parse_tx_spec_config

from pytest_ipperf.lab.inventory import Testbed
from pytest_ipperf.plugin.session import SESSION


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


class Distribution:
    """The hooks of the controller."""

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """What a worker must know: it must make the same plan and write to the same folder."""
        session = node.config.stash[SESSION]
        node.workerinput["ipperf"] = {"seed": session.settings.seed, "folder": str(session.folder)}

    @pytest.hookimpl
    def pytest_xdist_auto_num_workers(self, config: pytest.Config) -> int:
        """`-n auto`: as many workers as there are testbeds that can be measured side by side."""
        return len(independent(config.stash[SESSION].testbeds))

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> TestbedScheduling:
        """Ours, whatever `--dist` says, except for what cannot be."""
        del log
        if config.getvalue("dist") == "each":
            raise pytest.UsageError(
                "--dist=each would measure on one testbed from several workers at once; leave it out"
            )
        return TestbedScheduling(config, independent(config.stash[SESSION].settings.inventory.values()))


class TestbedScheduling:
    """The `Scheduling` protocol of xdist over units: a group of testbeds, or a file of other tests.

    A unit is never split between workers that live; what a worker that died leaves of it goes to another.
    """

    __test__ = False

    def __init__(self, config: pytest.Config, groups: Sequence[Collection[str]]) -> None:
        self.config = config
        self.collection: list[str] | None = None
        self._unit_of_testbed = {name: f"testbeds {' '.join(sorted(group))}" for group in groups for name in group}
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
        """Whether every worker has told what it found."""
        return len(self._collections) >= self._expected

    @property
    def has_pending(self) -> bool:
        """Whether anything is still to be run."""
        return bool(self._waiting) or any(self._given.values())

    @property
    def tests_finished(self) -> bool:
        """Whether all is done."""
        return self.collection is not None and not self.has_pending

    def add_node(self, node: Any) -> None:
        """A worker has come."""
        self._nodes.append(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected; a later one must find what the first ones found."""
        if self.collection is not None and list(collection) != self.collection:
            raise RuntimeError(report_collection_diff(self.collection, collection, "the others", node.gateway.id))
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """All have collected, or a replacement has: give out work."""
        if self.collection is None:
            found = list(self._collections.values())
            if any(each != found[0] for each in found):
                report = pytest.CollectReport("", "failed", "the workers collected different tests", [])
                self.config.hook.pytest_collectreport(report=report)
                return
            self.collection = found[0]
            for index, nodeid in enumerate(self.collection):
                self._waiting.setdefault(self._unit(nodeid), []).append(index)
        for node in self.nodes:
            self._top_up(node)

    def _unit(self, nodeid: str) -> str:
        match = re.search(r"\[([A-Za-z0-9_.]+)-", nodeid)
        return self._unit_of_testbed.get(match[1] if match else "", nodeid.partition("::")[0])

    def _top_up(self, node: Any) -> None:
        # A worker starts an item only when it knows the next one, or that there is none.
        if node.shutting_down or node not in self._collections:
            return
        own = self._given.setdefault(node, [])
        while len(own) <= 1 and self._waiting:
            _, unit = self._waiting.popitem(last=False)
            own.extend(unit)
            node.send_runtest_some(unit)
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
