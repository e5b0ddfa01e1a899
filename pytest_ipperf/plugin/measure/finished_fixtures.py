"""Release the finalizers of finished fixtures, which pytest keeps to the end of the session.

pytest gives a fixture of the session a finalizer for each set-up of a fixture that requests it, and the session one for
each set-up of a parameter of its scope. Each holds the request of its item, and finds nothing to do when the session
ends (docs/decisions/0059-finalizers-of-finished-fixtures-are-released.md).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import pytest

from pytest_ipperf.plugin.collect.collection import cell_of


class FinishedFixtures:
    """Plugin of each process that measures; without pytest's lists, which are not public, it does nothing."""

    def __init__(self) -> None:
        self._wide: set[pytest.FixtureDef[Any]] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Note a fixture that outlives its item."""
        if fixturedef.scope != "function":
            self._wide.add(fixturedef)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Forget a fixture that is torn down, with its finalizers."""
        self._wide.discard(fixturedef)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Remove the finalizers of torn down fixtures after an item that measures."""
        result = yield
        if cell_of(item) is not None:
            self._release(item.session)
        return result

    def _release(self, session: pytest.Session) -> None:
        of_fixtures = [getattr(each, "_finalizers", None) for each in self._wide]
        stack = getattr(getattr(session, "_setupstate", None), "stack", None)
        of_nodes = [each[0] for each in stack.values() if isinstance(each, tuple)] if isinstance(stack, dict) else []
        for kept in (*of_fixtures, *of_nodes):
            if isinstance(kept, list):
                kept[:] = _with_work(kept)


def _with_work(finalizers: Sequence[Callable[[], object]]) -> list[Callable[[], object]]:
    """Return the finalizers that have something to do: of each fixture with a value the last one, which runs first."""
    found: list[Callable[[], object]] = []
    finished: set[pytest.FixtureDef[Any]] = set()
    for each in reversed(finalizers):
        if (of := _finished_by(each)) is not None:
            if of in finished or of.cached_result is None:
                continue
            finished.add(of)
        found.append(each)
    return found[::-1]


def _finished_by(finalizer: Callable[[], object]) -> pytest.FixtureDef[Any] | None:
    """Return the fixture that a finalizer tears down; None for any other finalizer."""
    if not isinstance(finalizer, partial):
        return None
    of = getattr(finalizer.func, "__self__", None)
    return of if isinstance(of, pytest.FixtureDef) and finalizer.func == of.finish else None
