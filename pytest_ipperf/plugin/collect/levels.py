"""The grid of levels that a test measures, from its markers, the options and the protocol."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.design.payload_preset import expanded, parse_payload
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Level, Value, values_of
from pytest_ipperf.core.portable.traffic.load import LOAD
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.lab.runs.modelled_traffic import check_load_level, model_of
from pytest_ipperf.plugin.collect.compared_factor import ComparedFactor, compared_factor
from pytest_ipperf.plugin.options.settings import Settings
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.base import Protocol
from pytest_ipperf.protocols.traffic import Traffic


class LevelGrid(NamedTuple):
    """The levels to combine, each with each; `factors` are the combinations of the protocol's own factors.

    They are without a factor that is `compared`, whose levels are arms.
    """

    connections: list[int]
    payloads: list[int]
    factors: list[tuple[Level, ...]]
    compared: ComparedFactor | None


def level_grid(node: pytest.Item | pytest.Function, settings: Settings, protocol: str) -> LevelGrid:
    """Return the levels of a test: from the options, else from its markers, else from the protocol.

    Both markers are checked under every design, since measuring the paper's grid takes days.
    """
    kind, compared = PROTOCOLS[protocol], compared_factor(node, protocol)
    everyday, full = (
        _levels(_asked(node, kind, names), settings, kind, compared) for names in (("levels",), ("levels", "grid"))
    )
    return full if settings.design.full_grid else everyday


def _levels(
    asked: Mapping[str, Sequence[Any]], settings: Settings, kind: Protocol, compared: ComparedFactor | None
) -> LevelGrid:
    counts = _distinct("connections", asked, _count)
    sizes = {"payload": [size for level in asked["payload"] for size in expanded(level)]}
    marked = _distinct("payload", sizes, lambda size: parse_payload(size)[0])
    own_factors = []
    for factor in kind.factors:
        values = settings.factors[factor.name] or _distinct(factor.name, asked, factor.parse)
        if factor.name == LOAD.name:
            for each in values:
                check_load_level(str(each), settings.models)
        elif factor.further:  # the names of models
            for each in values:
                settings.models[str(each)]
        if compared is not None and compared.factor == factor:
            compared = _with_levels(compared, values)
            continue
        own_factors.append([factor.held(value) for value in values])
    connections, payloads = list(settings.connections) or counts, list(settings.payloads) or marked
    found = LevelGrid(connections, payloads, [sum(each, ()) for each in itertools.product(*own_factors)], compared)
    # Levels from options are not checked here: those that do not suit this test are left out later.
    _check(kind, [1] if settings.connections else counts, [] if settings.payloads else marked, found.factors)
    if isinstance(kind, Traffic):
        own = settings.payloads or any(settings.factors[factor.name] for factor in kind.factors)
        _check_models(kind, settings.models, [] if own else marked, found.factors)
    return found


def _check_models(
    kind: Traffic, models: Mapping[str, TrafficModel], payloads: list[int], factors: list[tuple[Level, ...]]
) -> None:
    """Raise UsageError if a level names a traffic model that does not suit the protocol and these payloads."""
    for values in map(values_of, factors):
        if kind.model_factor in values:  # else arms have different models
            for size in payloads:
                kind.shaped(models[kind.model_name(values)], size, values)


def _with_levels(compared: ComparedFactor, values: Sequence[Value]) -> ComparedFactor:
    name, texts = compared.factor.name, [compared.factor.text(value) for value in values]
    if len(values) < 2:
        raise UsageError(
            f"marker compare: {name} has the one level {texts[0]}; a comparison takes two or more, the first of which "
            f"is the reference, by marker levels({name}=[...]) or --{name}"
        )
    return replace(compared, levels=tuple(values))


def unsupported(workload: Workload, models: Mapping[str, TrafficModel]) -> str:
    """Return why a protocol cannot be measured with this workload's levels; empty if it can."""
    try:
        values = values_of(workload.levels)
        PROTOCOLS[workload.protocol].check(workload.connections, workload.payload_bytes, values)
        model_of(workload, models)
    except UsageError as error:
        return str(error)
    return ""


def _asked(node: Any, kind: Protocol, names: Sequence[str]) -> dict[str, Sequence[Any]]:
    asked: dict[str, Sequence[Any]] = {"connections": kind.connections, "payload": kind.payload}
    asked |= {factor.name: [factor.text(value) for value in factor.levels] for factor in kind.factors}
    usual = dict(asked)
    for name in names:
        mark = node.get_closest_marker(name)
        if mark is not None:
            if mark.args or set(mark.kwargs) - set(asked):
                raise UsageError(f"marker {name} of {kind.name} takes only the keywords {', '.join(asked)}")
            asked.update(mark.kwargs)
    for name, levels in asked.items():
        if not isinstance(levels, list | tuple) or not levels:
            raise UsageError(f"levels {name}={levels!r} are not a list such as {name}={list(usual[name])}")
    return asked


def _check(kind: Protocol, connections: list[int], payloads: list[int], factors: list[tuple[Level, ...]]) -> None:
    for count, size, levels in itertools.product(connections, payloads, factors):
        kind.check(count, size, values_of(levels))


def _distinct(name: str, asked: Mapping[str, Sequence[Any]], read: Callable[[Any], Any]) -> list[Any]:
    """Return the levels of one name; raise UsageError where two are equal, such as `1k` and `1024`."""
    found: dict[Any, Any] = {}
    for each in asked[name]:
        value = read(each)
        if value in found:
            same = f"{each!r} twice" if each == found[value] else f"{found[value]!r} and {each!r}, which are the same"
            raise UsageError(f"levels {name}={list(asked[name])!r} have {same}; a level is measured once")
        found[value] = each
    return list(found)


def _count(level: Any) -> int:
    if not isinstance(level, int) or level < 1:
        raise UsageError(f"level {level!r} is not a number of connections such as 1, 10 or 100")
    return level
