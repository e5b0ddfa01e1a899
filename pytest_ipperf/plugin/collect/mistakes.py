"""Find mistakes in a test before anything is measured.

pytest looks up a test's fixtures and runs its body only when its turn comes, which may be after hours of measuring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_ipperf.core.closest_match import closest_match
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.plugin.activation import may_be_skipped, requests_measured
from pytest_ipperf.plugin.collect.claims import check_claims
from pytest_ipperf.plugin.collect.questions import figures_of, metric_of
from pytest_ipperf.plugin.options.aliases import spell_options
from pytest_ipperf.plugin.session.invocation import invocation
from pytest_ipperf.plugin.session.stash import MISTAKE, SESSION
from pytest_ipperf.protocols import PROTOCOLS

_OURS = "pytest_ipperf.plugin.fixtures"
# Parameters of every measurement, which other tests do not have as fixtures.
_FACTORS = ("testbed", "protocol", "connections", "payload", "ipver", "transport", "twin")
_OF_MEASUREMENTS = ("margin", "server_state")
_NAME = re.compile(r"[(:\s]")
# An argument with -m, perhaps after flags that take no value.
_TYPED = re.compile(r"-[hlqsvVx]*m")


class MarkerExpressionCheck:
    """Plugin that checks the expression of `-m` once all tests are known."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Check `-m` before anything is deselected, by pytest among others.

        A worker of xdist cannot end the session with a message: it passes the message on, and selects nothing.
        """
        known = config.stash[SESSION]
        try:
            check_expression(config, items)
        except pytest.UsageError as error:
            if not known.is_worker:
                raise
            config.stash[MISTAKE] = str(error)
            config.option.markexpr = ""
            items.clear()


def check_test(metafunc: pytest.Metafunc) -> None:
    """Raise CollectError for the first mistake of a test that measures, or appears to be meant to."""
    try:
        _check(metafunc)
    except UsageError as error:
        raise pytest.Collector.CollectError(
            spell_options(metafunc.config, f"{metafunc.definition.nodeid}: {error}")
        ) from None


def check_expression(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Raise pytest.UsageError where `-m` names an unknown marker whose name is close to a known one.

    pytest reports unknown markers from 9.2 on, in strict mode, and without the nearest name. A name close to no marker
    is accepted, as is one below `not` or in the project's `addopts`: tests that are not collected now may have it.
    """
    if not any(map(_TYPED.match, invocation(config).command)):
        return
    names = set(_wanted(config.getoption("markexpr") or ""))
    registered = {_NAME.split(line.strip(), maxsplit=1)[0] for line in config.getini("markers")}
    if not names - registered or not any("testbed" in getattr(item, "fixturenames", ()) for item in items):
        return
    there = registered | {mark.name for item in items for mark in item.iter_markers()}
    for name in sorted(names - there):
        if close := closest_match(name, there):
            raise pytest.UsageError(f"-m: no marker is called {name!r}; the nearest is {close!r}")


def _wanted(expression: str) -> list[str]:
    """Return the names of markers in an expression of `-m`, without those below a `not`.

    The list is empty for an expression that is not valid Python; such expressions are left to pytest.
    """
    try:
        waiting = [ast.parse(expression, mode="eval").body]
    except (SyntaxError, ValueError):
        return []
    found = []
    for node in waiting:
        if isinstance(node, ast.BoolOp):
            waiting += node.values
        elif isinstance(node, ast.Call):
            waiting.append(node.func)
        elif isinstance(node, ast.Name):
            found.append(node.id)
    return found


def _check(metafunc: pytest.Metafunc) -> None:
    known = _fixtures(metafunc)
    unknown = (
        []
        if may_be_skipped(metafunc)
        else [
            name
            for name in metafunc.fixturenames
            if name not in known and name != "request" and not _is_defined(metafunc, name)
        ]
    )
    if requests_measured(metafunc):
        for name in unknown:
            raise UsageError(_unknown(name, _available(metafunc)))
        if known["measured"][-1].func.__module__ != _OURS:
            return  # the project's own fixture of that name may return anything
        protocol = next(mark.name for mark in metafunc.definition.iter_markers() if mark.name in PROTOCOLS)
        check_claims(metafunc.function, metric_of(metafunc.definition, protocol), figures_of(protocol))
    elif unknown and "measured" not in known:
        _check_unmeasured(metafunc, known, unknown)


def _check_unmeasured(metafunc: pytest.Metafunc, known: Mapping[str, Any], unknown: Sequence[str]) -> None:
    """Raise UsageError for a test that looks like a measurement but does not request `measured`."""
    marked = any(mark.name in PROTOCOLS for mark in metafunc.definition.iter_markers())
    for name in unknown:
        if marked and closest_match(name, ("measured", *_FACTORS, *_OF_MEASUREMENTS)) == "measured":
            raise UsageError(_unknown(name, ["measured"]))
    for name in _OF_MEASUREMENTS:
        if name in metafunc.fixturenames and _ours(known, name) and "protocol" in unknown:
            raise UsageError(f"it requests {name}, which belongs to a measurement, but not measured; request both")


def _unknown(name: str, there: Sequence[str]) -> str:
    close = closest_match(name, there)
    remedy = f"the nearest is {close!r}" if close else "pytest --fixtures lists all fixtures"
    return f"fixture {name!r}, requested by the test or by one of its fixtures, does not exist; {remedy}"


def _fixtures(metafunc: pytest.Metafunc) -> Mapping[str, Sequence[Any]]:
    """Return the definitions of a test's fixtures by name, its generated parameters included."""
    return metafunc._arg2fixturedefs  # noqa: SLF001 - pytest has no public API to tell a fixture from a parameter


def _is_defined(metafunc: pytest.Metafunc, name: str) -> bool:
    """Return whether there is a fixture of that name, also if a plugin has added the name after pytest's look-up."""
    manager = metafunc.definition.session._fixturemanager  # noqa: SLF001 - as above
    return bool(manager.getfixturedefs(name, metafunc.definition))


def _available(metafunc: pytest.Metafunc) -> list[str]:
    """Return the names of the fixtures that a test may request, its own parameters included."""
    node = metafunc.definition
    manager = node.session._fixturemanager  # noqa: SLF001 - as above
    # Tables by name: pytest 9.2 has two, earlier versions have one under another name.
    tables = [table for name, table in vars(manager).items() if name.startswith("_arg2")]
    names = dict.fromkeys(name for table in tables for name in table)
    return [*_FACTORS, *(name for name in names if manager.getfixturedefs(name, node))]


def _ours(known: Mapping[str, Sequence[Any]], name: str) -> bool:
    """Return whether a name is this plugin's fixture, or an override of it."""
    return any(getattr(each.func, "__module__", "") == _OURS for each in known.get(name, ()))
