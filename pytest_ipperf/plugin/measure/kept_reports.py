"""Compact the reports of a cell, which pytest keeps to the end of the session, once every reporter has had them.

pytest's terminal keeps three reports of each item, for its counts, its summary and `--durations`; each has a mapping of
the item's keywords, and on the controller of xdist texts of its own. Equal parts of the reports of an item become one,
and so do those of an item and the one before it: no table of all parts is kept. All they say stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

_WORDS = frozenset({"when", "outcome", "worker_id", "testrun_uid"})
"""Attributes of a report that have few values in a session; xdist adds the last two."""
_OF_ITEM = ("nodeid", "_id")
"""Attributes of which one has the node id that all reports of an item have in common, by pytest's version."""
_PLAIN = (str, int, bool, type(None))
"""Types whose equal values can stand for each other, unlike 0.0 and -0.0, or lists, which a plug-in may change."""


class KeptReports:
    """Plugin of the main process that compacts the reports of an item when it has ended.

    `cell_text` returns the text of a node id's cell, which others keep too.
    """

    def __init__(self, cell_text: Callable[[str], str]) -> None:
        self._cell_text = cell_text
        self._running: dict[str, list[pytest.TestReport]] = {}
        self._words: dict[str, str] = {}
        self._properties: dict[str, tuple[str, object]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a report of a cell until its item has ended."""
        if getattr(report, "ipperf", False):
            self._running.setdefault(report.nodeid, []).append(report)

    # Reporters write an item at its last report, or at its end: after all of them.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Compact the reports of an item, which may have run in a worker of xdist."""
        if reports := self._running.pop(str(nodeid), None):
            self._share(reports)

    def _share(self, reports: Sequence[pytest.TestReport]) -> None:
        """Give all reports of an item one mapping of keywords and one location, and equal words and properties."""
        # Of equal node ids pytest keeps that of the call.
        main = next((report for report in reports if report.when == "call"), reports[0])
        before, self._words = self._words, {}
        path, line, name = main.location
        own = (name, self._cell_text(main.nodeid))
        self._words.update(zip(own, own, strict=True))

        def word(text: str) -> str:
            return self._words.setdefault(text, before.get(text, text))

        location = (word(path), line, name)
        keywords = {word(name): value for name, value in main.keywords.items()}
        for report in reports:
            if report.keywords == keywords:
                report.keywords = keywords
            # xdist decodes the following anew for each report.
            if report.location == location:
                report.location = location
            for name in _OF_ITEM:
                if name in vars(report):
                    setattr(report, name, getattr(main, name))
            for name in _WORDS & vars(report).keys():
                setattr(report, name, word(getattr(report, name)))
            report.user_properties[:] = [
                self._property(word(each[0]), each) if type(each) is tuple and len(each) == 2 else each
                for each in report.user_properties
            ]

    def _property(self, name: str, known: tuple[str, object]) -> tuple[str, object]:
        """Return a property as one object with that of the item before, or with shared texts."""
        value = known[1]
        if type(value) not in _PLAIN:
            return name, value
        before = self._properties.get(name)
        if before is not None and type(before[1]) is type(value) and before[1] == value:
            return before
        shared = (name, self._words.get(value, value) if isinstance(value, str) else value)
        if name.startswith("ipperf_"):  # there are few names, which users' own properties need not have
            self._properties[name] = shared
        return shared
