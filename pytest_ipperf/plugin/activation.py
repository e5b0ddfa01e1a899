"""Whether anything of ours is measured in this process. Until that is known, no more of the plugin is loaded.

A project that has the plugin installed and measures nothing must not notice it, whatever its own fixtures, markers and
parameters are called. So what counts is the function that makes the fixture `measured`, and not its name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_ipperf.protocols import PROTOCOLS

MEASURED = "measured"
FIXTURES = ("factors", "margin", MEASURED, "server_state")
_MODULE = "pytest_ipperf.plugin.fixtures"
_LINUX = "linux"
# By name a list, or from pytest 9.2 on lists by node.
_TABLES = ("_arg2fixturedefs", "_arg2node2fixturedefs", "_arg2nodeid2fixturedefs")

_MEASURING: pytest.StashKey[set[str]] = pytest.StashKey()
"""The node ids of the test functions that measure, without their parameters."""


def requests_measured(metafunc: pytest.Metafunc) -> bool:
    """Return whether a test measures: its `measured` is ours, or requests ours as the fixture that it overrides.

    Without pytest's private table of definitions the name alone decides.
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
    """Return whether a test that does not measure has something of a measurement, and requests what is no fixture."""
    known = getattr(metafunc, "_arg2fixturedefs", None)
    if known is None or MEASURED in known or set(metafunc.fixturenames) <= {*known, "request"}:
        return False
    if may_be_skipped(metafunc):
        return False
    marked = any(mark.name in PROTOCOLS for mark in metafunc.definition.iter_markers())
    return marked or any(_is_ours(each) for name in FIXTURES for each in known.get(name, ()))


def may_be_skipped(metafunc: pytest.Metafunc) -> bool:
    """Return whether a test may never be set up, so that it may request fixtures that are not there."""
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
    """Put our fixtures before those of other plugins, so that theirs of the same name override ours.

    A plugin given by `-p` is loaded before ours, and of two plugins pytest prefers the one that is loaded later.
    Without pytest's private tables of fixtures that stays so. The fixtures of a folder's conftest, which override those
    of every plugin, must stay behind ours: before pytest 9.1 they share one list, and the session does not see them.
    """
    manager = getattr(session, "_fixturemanager", None)
    tables = [getattr(manager, name, {}) for name in _TABLES]
    for name in FIXTURES:
        found = [table.get(name, []) for table in tables]
        lists = [each for one in found for each in (one.values() if isinstance(one, dict) else [one])]
        # Which end of a list comes first is not the same in all versions of pytest.
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
    """Ends the items that measure in a sentence where they cannot, before their fixtures are set up."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Say why."""
        if measures(item):
            pytest.fail(unsupported_platform(), pytrace=False)
