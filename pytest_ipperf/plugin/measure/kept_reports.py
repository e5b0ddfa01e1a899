"""Compact the reports of a cell, which pytest keeps to the end of the session, once every reporter has had them.

pytest's terminal keeps three reports of each item, for its counts, its summary and `--durations`; each has a mapping of
the item's keywords, and on the controller of xdist texts of its own. Equal parts become one; all they say stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

_WORDS = frozenset({"when", "outcome", "worker_id", "testrun_uid"})
"""Attributes of a report that have few values in a session; xdist adds the last two."""


class KeptReports:
    """Plugin of the main process that compacts the reports of an item when it has ended."""

    def __init__(self) -> None:
        self._running: dict[str, list[pytest.TestReport]] = {}
        self._words: dict[str, str] = {}

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
        """Give all reports of an item one mapping of keywords and one location, and those of all items equal words."""
        first = reports[0]
        keywords = {self._word(name): value for name, value in first.keywords.items()}
        for report in reports:
            if report.keywords == keywords:
                report.keywords = keywords
            if report.location == first.location:
                report.location = first.location
            # xdist decodes the following anew for each report.
            for name in _WORDS & vars(report).keys():
                setattr(report, name, self._word(getattr(report, name)))
            report.user_properties[:] = [
                (self._word(each[0]), each[1]) if type(each) is tuple and len(each) == 2 else each
                for each in report.user_properties
            ]

    def _word(self, word: str) -> str:
        return self._words.setdefault(word, word)
