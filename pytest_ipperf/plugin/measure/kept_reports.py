"""Spool the reports of a cell, which pytest keeps to the end of the session, once every reporter has had them.

pytest's terminal keeps three reports of each item, for its counts, its summary and `--durations`, which few sessions
read again. What they say is spooled; a report that is read again becomes what it was
(docs/decisions/0060-reports-of-finished-cells-are-spooled.md).
"""

from __future__ import annotations

import marshal
from collections.abc import Generator
from typing import Any

import pytest

from pytest_ipperf.store.spool import Spool

_SPOOLED = "_ipperf_spooled"
"""Attribute of a spooled report: its spool and its place there."""
_ID = "_id"
"""Attribute of a report that has the node id, in versions of pytest in which it is not a text."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types that marshal gives back as they were, beside these built-in containers."""


class KeptReports:
    """Plugin of the main process that spools the reports of an item when it has ended."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._reports: dict[str, list[pytest.TestReport]] = {}
        self._runs_items = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a report of a cell until its item has ended."""
        if getattr(report, "ipperf", False):
            self._reports.setdefault(report.nodeid, []).append(report)

    # Outermost: some reporters write an item only after its end.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Spool the reports of an item that this process has run."""
        self._runs_items = True
        result = yield
        self._release(item.nodeid)
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Spool the reports of an item that a worker of xdist has run."""
        if not self._runs_items:
            self._release(str(nodeid))

    def _release(self, nodeid: str) -> None:
        # Another plugin may report one twice. Those of other classes may have slots, or read attributes otherwise.
        noted = {id(each): each for each in self._reports.pop(nodeid, [])}
        reports = [each for each in noted.values() if type(each) is pytest.TestReport]
        # Of equal node ids pytest keeps that of the call; xdist decodes one for each report.
        ids = [vars(each)[_ID] for each in sorted(reports, key=lambda each: each.when != "call") if _ID in vars(each)]
        # The last first: it has the most to say, and what others have in common with the first takes no bytes.
        for report in reversed(reports):
            attributes = vars(report)
            if _ID in attributes:
                attributes[_ID] = ids[0]
            _spool(report, self._spool)


class SpooledReport(pytest.TestReport):
    """A report of which most attributes are spooled; with the first that is read it is a `pytest.TestReport` again."""

    def __getattr__(self, name: str) -> Any:
        """Restore the report and return its attribute; AttributeError if it has none of that name."""
        if _SPOOLED not in vars(self):  # while it is copied
            raise AttributeError(name)
        _restore(self)
        return getattr(self, name)

    def _to_json(self) -> dict[str, Any]:
        """Return what pytest's serialiser of reports sends; the inherited one reads attributes past `__getattr__`."""
        _restore(self)
        return self._to_json()


def _spool(report: pytest.TestReport, spool: Spool) -> None:
    """Replace the attributes of a report that can be spooled: an object of pytest or another plugin stays."""
    attributes = vars(report)
    plain = {name: value for name, value in attributes.items() if _is_plain(value)}
    others = {name: value for name, value in attributes.items() if name not in plain}
    place = spool.append(marshal.dumps([plain, list(attributes)]))
    report.__dict__ = {**others, _SPOOLED: (spool, place)}
    report.__class__ = SpooledReport


def _restore(report: pytest.TestReport) -> None:
    """Make a spooled report what it was, but for attributes that were set since."""
    own = vars(report)
    spool, place = own.pop(_SPOOLED)
    plain, order = marshal.loads(spool[place])  # noqa: S302 - of this process
    found = {**plain, **own}
    report.__dict__ = {**{name: found[name] for name in order if name in found}, **own}
    report.__class__ = pytest.TestReport


def _is_plain(value: object) -> bool:
    """Return whether a value has only parts of built-in types; a subclass may behave otherwise."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if isinstance(value, list | tuple) and kind in (list, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, dict) and kind is dict and all(_is_plain(each) for part in value.items() for each in part)
