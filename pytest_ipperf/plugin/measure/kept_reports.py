"""Compact the reports of a cell, which pytest keeps to the end of the session, once every reporter has had them.

pytest's terminal keeps three reports of each item, for its counts, its summary and `--durations`; each has a mapping of
the item's keywords, and on the controller of xdist texts of its own. All they say stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, overload

import pytest

from pytest_ipperf.store.packed_texts import PackedTexts

_Property = tuple[str, object]
_WORDS = frozenset({"when", "outcome", "worker_id", "testrun_uid"})
"""Attributes of a report that have few values in a session; xdist adds the last two."""


class PackedProperties(Sequence[_Property]):
    """User properties of a report, compressed among those of other cells; they are decoded whenever they are read."""

    __slots__ = ("_number", "_texts")

    def __init__(self, texts: PackedTexts, properties: Sequence[_Property]) -> None:
        self._texts = texts
        self._number = texts.append(json.dumps(properties))

    def _decoded(self) -> list[_Property]:
        return [(name, value) for name, value in json.loads(self._texts[self._number])]

    def __len__(self) -> int:
        """Return the number of properties."""
        return len(self._decoded())

    def __iter__(self) -> Iterator[_Property]:
        """Iterate over names and values, as pytest's list of them does."""
        return iter(self._decoded())

    @overload
    def __getitem__(self, index: int) -> _Property: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Property]: ...
    def __getitem__(self, index: int | slice) -> _Property | list[_Property]:
        """Return the property, or the list of properties, at a place."""
        return self._decoded()[index]


class KeptReports:
    """Plugin of the main process that compacts the reports of an item when it has ended."""

    def __init__(self) -> None:
        self._running: dict[str, list[pytest.TestReport]] = {}
        self._words: dict[str, str] = {}
        self._properties = PackedTexts()

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
            for report in reports:
                self._pack_properties(report)

    def _share(self, reports: Sequence[pytest.TestReport]) -> None:
        """Give all reports of an item one mapping of keywords and one location, and those of all items equal words."""
        first = reports[0]
        keywords = {self._words.setdefault(name, name): value for name, value in first.keywords.items()}
        for report in reports:
            if report.keywords == keywords:
                report.keywords = keywords
            if report.location == first.location:
                report.location = first.location
            for name in _WORDS & vars(report).keys():  # xdist decodes them anew for each report
                word = getattr(report, name)
                setattr(report, name, self._words.setdefault(word, word))

    def _pack_properties(self, report: pytest.TestReport) -> None:
        """Compress the properties of a report, unless it has none or they would be read differently."""
        attributes: Any = report
        properties = report.user_properties
        if type(properties) is not list or not properties:
            return
        try:
            packed = PackedProperties(self._properties, properties)
        except (TypeError, ValueError):  # values of somebody else, which JSON cannot hold
            return
        # JSON has no tuples, and no names other than strings.
        if list(packed) == [tuple(each) for each in properties]:
            attributes.user_properties = packed
