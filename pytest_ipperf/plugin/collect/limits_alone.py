"""Find the tests that have limits alone: they compare nothing, so their arms are measured without the reference."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.plugin.activation import MEASURED
from pytest_ipperf.plugin.collect.claims import compares_nothing
from pytest_ipperf.plugin.session.stash import session_of

_OF_COMPARISONS = ("margin", "tail", "metric")
_OURS = "pytest_ipperf.plugin.fixtures"


def asks_limits_alone(metafunc: pytest.Metafunc) -> bool:
    """Return whether a test that measures has a marker limit, none that compares, and a body that compares nothing."""
    markers = {mark.name for mark in metafunc.definition.iter_markers()}
    if "limit" not in markers or markers & set(_OF_COMPARISONS):
        return False
    known = getattr(metafunc, "_arg2fixturedefs", {})
    if any(_uses_measured(each) for definitions in known.values() for each in definitions):
        return False
    return compares_nothing(metafunc.function)


def _uses_measured(definition: pytest.FixtureDef[object]) -> bool:
    """Return whether a fixture requests or replaces `measured`, so that it may compare."""
    ours = definition.func.__module__ == _OURS
    return not ours and (definition.argname == MEASURED or MEASURED in definition.argnames)


def check_alone(item: pytest.Item) -> None:
    """Raise UsageError if an item of a test that has limits alone has a marker of its own that compares."""
    names = [mark.name for mark in item.iter_markers() if mark.name in _OF_COMPARISONS]
    if names and is_alone(item):
        raise UsageError(
            f"marker {names[0]} of this item would not be judged, as its test compares nothing; mark the whole test "
            f"{names[0]}, or use `measured.slowdown <= margin`"
        )


def is_alone(item: pytest.Item) -> bool:
    """Return whether an item belongs to a test that has limits alone."""
    name, parent = getattr(item, "originalname", None), item.parent
    return bool(name and parent and f"{parent.nodeid}::{name}" in session_of(item.config).alone)
