"""Parametrize tests with cells, from markers and settings, and select the items to measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import pytest

from pytest_ipperf.core.design.cell import AGAINST, Arm, Cell, Workload, levels_text, load_text, talk_text
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.portable.errors import IpperfError, UsageError
from pytest_ipperf.core.portable.factor import Factor, Level, levels_from_text
from pytest_ipperf.core.portable.workload_kind import ClientLoad
from pytest_ipperf.lab.inventory.limits import beyond, no_offload, too_many
from pytest_ipperf.plugin.activation import measures
from pytest_ipperf.plugin.collect.compared_factor import ComparedFactor
from pytest_ipperf.plugin.collect.levels import level_grid, unsupported
from pytest_ipperf.plugin.collect.limits_alone import asks_limits_alone, check_alone, is_alone
from pytest_ipperf.plugin.collect.node_ids import named_ids
from pytest_ipperf.plugin.collect.questions import (
    check_markers,
    limits_of,
    margin_mismatch,
    question_of,
    questions_beside,
)
from pytest_ipperf.plugin.collect.unused_options import check_unused_options
from pytest_ipperf.plugin.options.aliases import spell_options
from pytest_ipperf.plugin.options.settings import Settings, only_reference
from pytest_ipperf.plugin.session.invocation import from_controller
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.stash import MISTAKE, session_of
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS

# Placeholder for the names of all transports with the same reason.
_NAMES = "{transports}"
_CELL = pytest.StashKey[Cell | None]()
_OBSTACLE = pytest.StashKey[tuple[str, str] | None]()
FACTORS = ("testbed", "protocol", "connections", "payload", "ipver", "transport", "twin")


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test that measures with its cells.

    With an invalid setting the test gets none, and `finish` reports the error if the test is selected. It reports the
    error itself if the command line names one of its cells, of which pytest would say only that it is not found.
    """
    try:
        session = session_of(metafunc.config)
    except IpperfError as error:
        if named_ids(metafunc.definition):
            raise pytest.Collector.CollectError(spell_options(metafunc.config, str(error))) from None
        return
    where = metafunc.definition.nodeid
    try:
        protocol = _protocol(metafunc)
        connections, payloads, factors, compared = level_grid(metafunc.definition, session.settings, protocol)
        check_markers(metafunc.definition, protocol)
    except UsageError as error:
        raise pytest.Collector.CollectError(spell_options(metafunc.config, f"{where}: {error}")) from None
    if asks_limits_alone(metafunc):
        session.alone.add(where)
    # Factors that are equal within a workload have session scope, so that pytest keeps a workload's items together:
    # the first of them measures for all.
    load = _client_load(session.settings, protocol)
    for name, values, ids in (
        ("testbed", _testbeds(metafunc, session), None),
        ("protocol", [protocol], [talk_text(protocol, load.client)]),
        ("connections", connections, [f"c{number}" for number in connections]),
        (
            "payload",
            payloads,
            [load_text(size, load.rate_per_s, load.workers) for size in payloads],
        ),
    ):
        metafunc.parametrize(name, values, ids=ids, scope="session")
    # Default levels appear in no id; a test that measures only those has no such parameter.
    if any(text := [levels_text(levels) for levels in factors]):
        metafunc.parametrize("factors", factors, ids=[each or "default" for each in text], scope="session")
    if compared is not None:
        metafunc.parametrize("compared_with", [compared.against], ids=[AGAINST + compared.against], scope="session")
    names = ("ipver", "transport", "twin", *(["compared_level"] if compared else []))
    metafunc.parametrize(names, [_param(arm) for arm in _arms(metafunc, session, compared)])


def finish(session: pytest.Session) -> None:
    """Plan the selected items; raise pytest.UsageError, before anything is measured, where that is impossible.

    A worker then selects nothing and passes the message on; the main process ends the session when it receives it.
    """
    try:
        known = session_of(session.config)
        _check_items(session.items)
        known.make_plans(asked(session.items))
        known.items = {item.nodeid: str(cell) for item in session.items if (cell := cell_of(item)) is not None}
        _check_filters(known)
        known.check_client()
        known.check_reboot()
        check_unused_options(known)
        known.left_out.clear()  # there may be thousands, which nothing else asks for
        known.check_descriptors()
    except IpperfError as error:  # among others an invalid setting, or damaged records of earlier sessions
        mistake = spell_options(session.config, str(error))
        if from_controller(session.config) is None:
            raise pytest.UsageError(mistake) from None
        session.config.stash[MISTAKE] = mistake
        session.items.clear()


def _check_items(items: Iterable[pytest.Item]) -> None:
    """Raise UsageError for invalid markers of single items, which `pytest.param` and hooks may have added."""
    for item in items:
        if (cell := cell_of(item)) is None:
            continue
        try:
            check_markers(item, cell.workload.protocol)
            check_alone(item)
        except UsageError as error:
            raise UsageError(f"{item.nodeid}: {error}") from None


def _check_filters(session: Session) -> None:
    """Raise UsageError if nothing is left because the filters leave only the reference, which is no test's own arm."""
    if not session.plans and (why := only_reference(session.settings)):
        raise UsageError(why)


def _arms(metafunc: pytest.Metafunc, session: Session, compared: ComparedFactor | None) -> list[Arm]:
    reference, alone = session.settings.reference, metafunc.definition.nodeid in session.alone
    every = [Arm(ipver, name) for ipver in (4, 6) for name in sorted(TRANSPORTS, key=lambda n: TRANSPORTS[n].rank)
             if ipver in TRANSPORTS[name].ipvers]  # fmt: skip
    if compared is not None:
        every, reference = compared.arms(every, alone=alone), dataclasses.replace(reference, level=compared.against)
    if alone:
        return every
    arms = [arm for arm in every if arm != reference]
    twin = dataclasses.replace(reference, twin=True)
    return [*arms, twin] if session.settings.twin or _named(metafunc, twin) else arms


def _testbeds(metafunc: pytest.Metafunc, session: Session) -> list[str]:
    """Return the names of the testbeds that the session selects, and of those in node ids of this test.

    An inventory may have thousands of testbeds; items for the others would only be deselected again.
    """
    inventory = session.settings.inventory
    named = [part for text in named_ids(metafunc.definition) for part in text.split("-") if part in inventory]
    return list(dict.fromkeys((*(testbed.name for testbed in session.testbeds), *named)))


def _named(metafunc: pytest.Metafunc, arm: Arm) -> bool:
    """Return whether the command line has a node id of this test on that arm, which then needs no option as well."""
    return any(f"-{arm}" in text for text in named_ids(metafunc.definition))


def _param(arm: Arm) -> pytest.ParameterSet:
    level = {"level": arm.level} if arm.level else {}
    mark = pytest.mark.arm(ipver=arm.ipver, transport=arm.transport, twin=arm.twin, **level)
    return pytest.param(arm.ipver, arm.transport, arm.twin, *level.values(), id=str(arm), marks=mark)


def _protocol(metafunc: pytest.Metafunc) -> str:
    names = sorted({mark.name for mark in metafunc.definition.iter_markers() if mark.name in PROTOCOLS})
    if len(names) != 1:
        has = f"has the protocol markers {', '.join(names)}" if names else "has no protocol marker"
        raise UsageError(f"a measurement {has}; it needs exactly one of {', '.join(PROTOCOLS)}")
    return names[0]


def cell_of(item: pytest.Item) -> Cell | None:
    """Return the cell that an item measures; None for an item that does not measure."""
    if _CELL not in item.stash:
        item.stash[_CELL] = _cell(item)
    return item.stash[_CELL]


def _cell(item: pytest.Item) -> Cell | None:
    callspec = getattr(item, "callspec", None)
    if callspec is None or not measures(item) or not set(FACTORS) <= set(callspec.params):
        return None
    known = {name: callspec.params[name] for name in FACTORS}
    known |= {name: callspec.params[name] for name in ("compared_with", "compared_level") if name in callspec.params}
    return cell_from(session_of(item.config), **known, factors=callspec.params.get("factors", ()))


def asked(items: Iterable[pytest.Item]) -> Iterator[tuple[Cell, list[Question]]]:
    """Yield the cells of the items, each with the questions of its item."""
    for item in items:
        if (cell := cell_of(item)) is not None:
            protocol = cell.workload.protocol
            compared = [] if is_alone(item) else [question_of(item, protocol), *questions_beside(item, protocol)]
            yield cell, [*compared, *map(Question.about, limits_of(item, protocol))]


def _written(item: pytest.Item) -> tuple[Any, ...]:
    path, line, _ = item.location
    return path, line or 0, *getattr(item, "callspec").indices.values()  # noqa: B009 - pytest types no callspec


def cell_from(
    session: Session,
    *,
    testbed: str,
    protocol: str,
    connections: int,
    payload: int,
    ipver: int,
    transport: str,
    twin: bool,
    factors: tuple[Level, ...],
    compared_with: str = "",
    compared_level: str = "",
) -> Cell:
    """Return the cell of these levels in this session; empty `factors` are the protocol's factors at their defaults.

    The level of a compared factor, `compared_level`, is the arm's; `compared_with` is its reference.
    Client, arrivals and workers are settings of application protocols only.
    """
    workload = Workload(
        testbed=testbed,
        protocol=protocol,
        connections=connections,
        payload_bytes=payload,
        levels=factors or levels_from_text(held_equal(protocol, compared_with), ""),
        against=compared_with,
        **_client_load(session.settings, protocol)._asdict(),
    )
    return Cell(workload, Arm(ipver, transport, twin, compared_level))


def held_equal(protocol: str, compared_with: str) -> list[Factor]:
    """Return a protocol's factors without the compared one."""
    name = compared_with.partition("_")[0]
    return [factor for factor in PROTOCOLS[protocol].factors if factor.name != name]


def _client_load(settings: Settings, protocol: str) -> ClientLoad:
    return PROTOCOLS[protocol].kind.load(ClientLoad(settings.client, settings.rate_per_s, settings.workers))


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the items that the filters exclude; node ids do not change, so that `--lf` works."""
    session = session_of(config)
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        cell, only = cell_of(item), session.settings.only
        asked = cell is None or (_wanted(session, item, cell) and _filtered(session, cell.arm))
        (kept if asked and (only is None or item.nodeid in only) else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


class UnsupportedItems:
    """Plugin that removes the items that can never run in this session, and keeps the reasons.

    It is the outermost wrapper: the items that it removes were selected by `-m`, `-k`, `--lf` and the filters, so the
    user asked for them.
    """

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> Generator[None]:
        """Hide items that can never run from the terminal's count; pytest still selects from all."""
        whole = report.result
        if whole:
            report.result = [node for node in whole if not (isinstance(node, pytest.Item) and never_runs(node))]
        try:
            yield
        finally:
            report.result = whole

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
        """Remove the items that can never run and keep the reasons; none of them counts as deselected."""
        yield
        cells = {item: cell for item in items if (cell := cell_of(item)) is not None}
        found = {item: _obstacle(item, cell) for item, cell in cells.items()}
        session_of(config).left_out = [cells[item] for item, why in found.items() if why is not None]
        lines = _left_out({why for why in found.values() if why is not None})
        session_of(config).left_out_lines = [spell_options(config, line) for line in lines]
        items[:] = [item for item in items if found.get(item) is None]
        _recount(config)


def _recount(config: pytest.Config) -> None:
    """Remove items that could never have run from the terminal's count of deselected ones."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    counted = reporter.stats.pop("deselected", []) if reporter is not None else []
    if able := [item for item in counted if not never_runs(item)]:
        reporter.stats["deselected"] = able


def never_runs(item: pytest.Item) -> bool:
    """Return whether the session can never measure an item's cell: its testbed is not selected, or lacks the arm."""
    cell = cell_of(item)
    if cell is None:
        return False
    session = session_of(item.config)
    return not _wanted(session, item, cell) or _obstacle(item, cell) is not None


def _wanted(session: Session, item: pytest.Item, cell: Cell) -> bool:
    """Return whether the session measures on a cell's testbed; without `--testbed` a node id may name it."""
    if cell.workload.testbed in session.selected:
        return True
    return not session.settings.testbed_asked and item.name.partition("[")[2].removesuffix("]") in named_ids(item)


def _obstacle(item: pytest.Item, cell: Cell) -> tuple[str, str] | None:
    """Return why a cell cannot be measured here, or why `--margin` does not apply to it; cached on the item."""
    if _OBSTACLE not in item.stash:
        alone = is_alone(item)
        item.stash[_OBSTACLE] = _lacking(session_of(item.config), cell, alone=alone) or (
            None if alone else _margin_mismatch(item, cell)
        )
    return item.stash[_OBSTACLE]


def _lacking(session: Session, cell: Cell, *, alone: bool) -> tuple[str, str] | None:
    """Return why a cell cannot be measured, with a placeholder for transports, and its transport; None if it can."""
    testbed = session.settings.inventory[cell.workload.testbed]
    for arm in (cell.arm,) if alone else (cell.arm, cell.reference(session.settings.reference)):
        if why := session.lacks(testbed, arm, _NAMES):
            return why, arm.transport
    # A size given on the command line may suit one of a suite's protocols and not another.
    why = (
        unsupported(cell.workload, session.settings.models)
        or too_many(testbed, cell.workload.protocol)
        or beyond(testbed, cell.workload)
        or no_offload(testbed, cell)
    )
    return (why, cell.arm.transport) if why else None


def _margin_mismatch(item: pytest.Item, cell: Cell) -> tuple[str, str] | None:
    """Return why `--margin` does not apply to an item, in the same form."""
    why = margin_mismatch(item, cell.workload.protocol)
    return (why, cell.arm.transport) if why else None


def _left_out(lacking: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each reason, with the transports that it concerns."""
    found: dict[str, list[str]] = {}
    for why, transport in sorted(lacking, key=lambda pair: (pair[0], TRANSPORTS[pair[1]].rank)):
        found.setdefault(why, []).append(transport)
    return [f"left out: {why.replace(_NAMES, ', '.join(names))}" for why, names in found.items()]


def group_by_workload(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group the items by workload, in the order of the source, or in that of pytest-randomly.

    pytest's own reordering by parameters of session scope would mix the workloads of tests that share a level.
    """
    measurements = [(item, cell.workload) for item in items if (cell := cell_of(item)) is not None]
    if not config.pluginmanager.hasplugin("randomly"):
        measurements.sort(key=lambda pair: (pair[1].testbed, *_written(pair[0])))
    groups: dict[Workload, list[pytest.Item]] = {}
    for item, workload in measurements:
        groups.setdefault(workload, []).append(item)
    ordered = iter([item for group in groups.values() for item in group])
    items[:] = [next(ordered) if cell_of(item) is not None else item for item in items]


def _filtered(session: Session, arm: Arm) -> bool:
    if arm.twin:
        return True  # a twin exists only on request
    settings = session.settings
    return (not settings.ipvers or arm.ipver in settings.ipvers) and (
        not settings.transports or arm.transport in settings.transports
    )
