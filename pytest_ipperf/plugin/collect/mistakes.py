"""Find mistakes of a test that show before anything is measured.

A workload may take an hour, and pytest looks for a test's fixtures, and runs its body, only when its turn has come.
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
from pytest_ipperf.plugin.collect.questions import metric_of
from pytest_ipperf.plugin.options.aliases import spell_options
from pytest_ipperf.plugin.session.invocation import invocation
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.protocols import PROTOCOLS

_OURS = "pytest_ipperf.plugin.fixtures"
# What is a parameter of every measurement, and a fixture of no other test.
_FACTORS = ("testbed", "protocol", "connections", "payload", "ipver", "transport", "twin")
_OF_MEASUREMENTS = ("margin", "server_state")
_NAME = re.compile(r"[(:\s]")
# An argument of pytest: -m, perhaps behind flags that take no value.
_TYPED = re.compile(r"-[hlqsvVx]*m")


class MarkerExpressionCheck:
    """Looks at the expression of `-m` once all tests are known."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Look at `-m` before anything is deselected, by pytest among others.

        A worker of xdist cannot end a session in a sentence: it hands over the sentence, and selects nothing.
        """
        known = config.stash[SESSION]
        try:
            check_expression(config, items)
        except pytest.UsageError as error:
            if not known.is_worker:
                raise
            known.mistake = str(error)
            config.option.markexpr = ""
            items.clear()


def check_test(metafunc: pytest.Metafunc) -> None:
    """Raise CollectError for the first mistake of a test that measures, or that seems to want to."""
    try:
        _check(metafunc)
    except UsageError as error:
        raise pytest.Collector.CollectError(
            spell_options(metafunc.config, f"{metafunc.definition.nodeid}: {error}")
        ) from None


def check_expression(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Raise pytest.UsageError where `-m` asks for a name that is no marker's, and one that is close to it is.

    pytest itself finds it from 9.2 on, where it is strict, and without the nearest. A name that is close to none may be
    one of a marker that no test has at present, and so may one that is excluded, or that the project's `addopts` has:
    tests of another file may have that marker.
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

    None are seen where it has a name that is none in Python: such expressions are left to pytest.
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
        else [name for name in metafunc.fixturenames if name not in known and name != "request"]
    )
    if requests_measured(metafunc):
        for name in unknown:
            raise UsageError(_unknown(name, _available(metafunc)))
        if known["measured"][-1].func.__module__ != _OURS:
            return  # what a project's own fixture of that name gives, only the project knows
        protocol = next(mark.name for mark in metafunc.definition.iter_markers() if mark.name in PROTOCOLS)
        check_claims(metafunc.function, metric_of(metafunc.definition, protocol))
    elif unknown and "measured" not in known:
        _check_unmeasured(metafunc, known, unknown)


def _check_unmeasured(metafunc: pytest.Metafunc, known: Mapping[str, Any], unknown: Sequence[str]) -> None:
    """Raise UsageError where a test has something of a measurement, and no measurement to go with it."""
    marked = any(mark.name in PROTOCOLS for mark in metafunc.definition.iter_markers())
    for name in unknown:
        if marked and closest_match(name, ("measured", *_FACTORS, *_OF_MEASUREMENTS)) == "measured":
            raise UsageError(_unknown(name, ["measured"]))
    for name in _OF_MEASUREMENTS:
        if name in metafunc.fixturenames and _ours(known, name) and "protocol" in unknown:
            raise UsageError(f"it asks for {name}, which belongs to a measurement, and not for measured; ask for both")


def _unknown(name: str, there: Sequence[str]) -> str:
    close = closest_match(name, there)
    remedy = f"the nearest is {close!r}" if close else "pytest --fixtures lists those that there are"
    return f"{name!r}, which it asks for, itself or by a fixture, is no fixture; {remedy}"


def _fixtures(metafunc: pytest.Metafunc) -> Mapping[str, Sequence[Any]]:
    """Return the definitions behind a test's names; those of parameters are among them, once they are generated."""
    return metafunc._arg2fixturedefs  # noqa: SLF001 - pytest has no public way to know a fixture from a parameter


def _available(metafunc: pytest.Metafunc) -> list[str]:
    """Return the names of the fixtures that a test may ask for, its own parameters included."""
    node = metafunc.definition
    manager = node.session._fixturemanager  # noqa: SLF001 - as above
    # By name; pytest 9.2 has two such tables, and earlier ones have one of another name.
    tables = [table for name, table in vars(manager).items() if name.startswith("_arg2")]
    names = dict.fromkeys(name for table in tables for name in table)
    return [*_FACTORS, *(name for name in names if manager.getfixturedefs(name, node))]


def _ours(known: Mapping[str, Sequence[Any]], name: str) -> bool:
    """Whether a name means this plugin's fixture, or one that is built upon it."""
    return any(getattr(each.func, "__module__", "") == _OURS for each in known.get(name, ()))
