"""Presence: whether anything of ours is measured in this process. Until that is known, no more of the plugin is loaded.

A project that has the plugin installed and measures nothing must not notice it, whatever its own fixtures, markers and
parameters are called. So what counts is the function that makes the fixture `measured`, and not its name.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_ipperf.protocols import PROTOCOLS

if TYPE_CHECKING:  # which load what only a measuring session needs
    from pytest_ipperf.plugin.session.session import Session

MEASURED = "measured"
FIXTURES = ("factors", "margin", MEASURED, "server_state")
_MODULE = "pytest_ipperf.plugin.fixtures"
_LINUX = "linux"
# By name a list, or from pytest 9.2 on lists by node.
_TABLES = ("_arg2fixturedefs", "_arg2node2fixturedefs", "_arg2nodeid2fixturedefs")

SESSION: pytest.StashKey[Session] = pytest.StashKey()
_BEGUN: pytest.StashKey[Begun] = pytest.StashKey()
_MEASURING: pytest.StashKey[set[str]] = pytest.StashKey()
"""The node ids of the test functions that measure, without their parameters."""


class Begun(NamedTuple):
    """The facts that all processes of a session share before it is known whether they measure.

    `seed` counts where none is asked for. `at_s` (since the epoch) and `token` name the folder of the records, and
    `resume` the session that is resumed, empty where none is.
    """

    seed: int
    at_s: float
    token: str
    command: list[str]
    resume: str = ""


def handed_over(config: pytest.Config) -> Begun | None:
    """Return what the controller of xdist handed over to this worker; None in every other process."""
    known: list[Any] | None = getattr(config, "workerinput", {}).get("ipperf")
    return Begun(*known) if known else None


def begun(config: pytest.Config) -> Begun:
    """Return the facts of this session; in a worker of xdist those of its controller."""
    if _BEGUN not in config.stash:
        command = ["pytest", *map(str, config.invocation_params.args)]
        own = Begun(secrets.randbelow(2**31), time.time(), secrets.token_hex(3), command)
        config.stash[_BEGUN] = handed_over(config) or own
    return config.stash[_BEGUN]


def session_of(config: pytest.Config) -> Session:
    """Return the measuring session of this process, begun at the first call.

    UsageError where a setting makes no sense.
    """
    if SESSION not in config.stash:
        from pytest_ipperf.plugin.session.start import begin  # noqa: PLC0415 - see above

        begin(config)
    return config.stash[SESSION]


def asks(metafunc: pytest.Metafunc) -> bool:
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


def seems_to_ask(metafunc: pytest.Metafunc) -> bool:
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


def note(metafunc: pytest.Metafunc) -> None:
    """Keep in mind that the items of this test measure."""
    metafunc.config.stash.setdefault(_MEASURING, set()).add(metafunc.definition.nodeid)


def measures(item: pytest.Item) -> bool:
    """Return whether an item measures."""
    known = item.config.stash.get(_MEASURING, None)
    name, parent = getattr(item, "originalname", None), item.parent
    return bool(known and name and parent and f"{parent.nodeid}::{name}" in known)


def give_way(session: pytest.Session) -> None:
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


def elsewhere() -> str:
    """Return why nothing can be measured on this system; empty on Linux."""
    return "" if sys.platform == _LINUX else f"pytest-ipperf measures on Linux only; this is {sys.platform}"


class Elsewhere:
    """Ends the items that measure in a sentence where they cannot, before their fixtures are set up."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Say why."""
        if measures(item):
            pytest.fail(elsewhere(), pytrace=False)


class Looking:
    """Looks at every test that measures, or seems to want to, once all of its parameters are known."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> Generator[None]:
        """Report the first mistake of the test."""
        yield
        if not elsewhere() and ((asks(metafunc) and SESSION in metafunc.config.stash) or seems_to_ask(metafunc)):
            from pytest_ipperf.plugin.collect.mistakes import check_test  # noqa: PLC0415 - see above

            check_test(metafunc)


class Selection:
    """Filters and order of what is measured, as a plugin of its own, registered when pytest is configured.

    pytest calls hooks in the reverse order of registration, and this one must come after pytest's grouping by
    parameters and before `--sw`, which remembers the order that it sees.
    """

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Apply both."""
        if SESSION in config.stash:
            from pytest_ipperf.plugin.collect.collection import arrange, deselect  # noqa: PLC0415 - see above

            deselect(config, items)
            arrange(config, items)
