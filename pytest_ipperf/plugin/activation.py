"""Decide whether this process measures anything. No more of the plugin is imported until it does.

The plugin must be invisible to a project that measures nothing, whatever that project calls its own fixtures, markers
and parameters. A test therefore measures if its fixture `measured` is this plugin's function, not by its name alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_ipperf.protocols import PROTOCOLS

MEASURED = "measured"
FIXTURES = ("compared_level", "compared_with", "factors", "margin", MEASURED, "server_state")
_MODULE = "pytest_ipperf.plugin.fixtures"
_LINUX = "linux"
# pytest's private tables: lists by name; from pytest 9.2 on, lists by node for each name.
_TABLES = ("_arg2fixturedefs", "_arg2node2fixturedefs", "_arg2nodeid2fixturedefs")

_MEASURING: pytest.StashKey[set[str]] = pytest.StashKey()
"""Node ids of the test functions that measure, without their parameters."""


def requests_measured(metafunc: pytest.Metafunc) -> bool:
    """Return whether a test measures: its `measured` is ours, or overrides ours and requests it.

    Where pytest's private table of definitions is missing, the name alone decides.
    """
    if MEASURED not in metafunc.fixturenames:
        return False
    known = getattr(metafunc, "_arg2fixturedefs", None)
    if known is None:
        return True
    for definition in reversed(known.get(MEASURED, ())):
        if _is_ours(definition):
            return True
        if MEASURED not in definition.argnames:
            return False
    return False


def _is_ours(definition: Any) -> bool:
    return getattr(definition.func, "__module__", "") == _MODULE


def resembles_measurement(metafunc: pytest.Metafunc) -> bool:
    """Return whether a test that does not measure looks like a measurement, and requests a fixture that is missing."""
    known = getattr(metafunc, "_arg2fixturedefs", None)
    if known is None or MEASURED in known or set(metafunc.fixturenames) <= {*known, "request"}:
        return False
    if may_be_skipped(metafunc):
        return False
    marked = any(mark.name in PROTOCOLS for mark in metafunc.definition.iter_markers())
    return marked or any(_is_ours(each) for name in FIXTURES for each in known.get(name, ()))


def may_be_skipped(metafunc: pytest.Metafunc) -> bool:
    """Return whether a test may never be set up; such a test may request missing fixtures."""
    return any(
        mark.name in {"skip", "skipif"} or (mark.name == "xfail" and mark.kwargs.get("run") is False)
        for mark in metafunc.definition.iter_markers()
    )


def mark_measuring(metafunc: pytest.Metafunc) -> None:
    """Record that the items of this test measure."""
    metafunc.config.stash.setdefault(_MEASURING, set()).add(metafunc.definition.nodeid)


def measures(item: pytest.Item) -> bool:
    """Return whether an item measures."""
    known = item.config.stash.get(_MEASURING, None)
    name, parent = getattr(item, "originalname", None), item.parent
    return bool(known and name and parent and f"{parent.nodeid}::{name}" in known)


def allow_overrides(session: pytest.Session) -> None:
    """Sort our fixtures before those of other plugins, so that others of the same name override ours.

    pytest prefers the plugin that is loaded later, and a plugin given by `-p` is loaded before ours. Where pytest's
    private tables of fixtures are missing, that order stays. Fixtures of a folder's conftest override those of every
    plugin and must stay behind ours: before pytest 9.1 they share one list, and the session does not see them.
    """
    manager = getattr(session, "_fixturemanager", None)
    tables = [getattr(manager, name, {}) for name in _TABLES]
    for name in FIXTURES:
        found = [table.get(name, []) for table in tables]
        lists = [each for one in found for each in (one.values() if isinstance(one, dict) else [one])]
        # The end of the list that has priority differs between versions of pytest.
        for at_the_end in (False, True):
            for definitions in lists:
                definitions.sort(key=lambda each, end=at_the_end: _is_ours(each) == end)
            effective: Sequence[Any] = getattr(manager, "getfixturedefs", _none)(name, session) or ()
            if all(map(_is_ours, effective)) or not _is_ours(effective[-1]):
                break


def _none(*_: object) -> None:
    """Stand in for a function that a version of pytest does not have."""


def unsupported_platform() -> str:
    """Return why nothing can be measured on this system; empty on Linux."""
    return "" if sys.platform == _LINUX else f"pytest-ipperf measures on Linux only; this is {sys.platform}"


class UnsupportedPlatform:
    """Plugin that fails the items that measure, before their fixtures are set up, on an unsupported platform."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail the item with the reason."""
        if measures(item):
            pytest.fail(unsupported_platform(), pytrace=False)
