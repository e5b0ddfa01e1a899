"""The options: declared once (`declaring`), read once, frozen as `Settings`.

Whatever makes no sense ends here, in one sentence that calls an option by its short name (see `aliases.worded`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.design import Design, design_named
from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.factor import Value
from pytest_ipperf.core.margin import Margin
from pytest_ipperf.core.units import parse_bytes, parse_seconds
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.labs import BUILTIN, rated, testbed_of
from pytest_ipperf.lab.testbed import Testbed
from pytest_ipperf.plugin import values
from pytest_ipperf.plugin.declaring import CLIENTS, FACTORS, HOSTS, ini_of, long_of
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS

# The testbed in the id of a test.
_NAMED = rf"\[(.+?)-(?:{'|'.join(PROTOCOLS)})-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that the user asked for. Empty filters and levels mean: not asked."""

    ipvers: tuple[int, ...]
    transports: tuple[str, ...]
    testbeds: tuple[str, ...]
    testbed_asked: bool
    connections: tuple[int, ...]
    payloads: tuple[int, ...]
    factors: Mapping[str, tuple[Value, ...]]
    design: Design
    reference: Arm
    margin: Margin | None
    client: str
    rate_per_s: float
    workers: int
    server: str
    backend: str
    capture: int
    reboot: bool
    inventory: dict[str, Testbed]
    inventory_trouble: str
    seed: int
    seed_asked: bool
    resume: str
    budget_s: float | None
    twin: bool
    fail_inconclusive: bool
    deadline_s: float
    wait_s: float
    records: Path
    saved: str
    baseline: str
    flags: bool
    only: frozenset[str] | None
    outcome: Path | None


def read_settings(config: pytest.Config, seed: int | None) -> Settings:
    """The settings of a session; UsageError where a value makes no sense. `seed` is the controller's, in a worker."""
    inventory, trouble = _inventory(config)
    inventory |= _rated(config, inventory)
    settings = Settings(
        ipvers=_listed(config, "--ipver", values.ip_version),
        transports=_listed(config, "--transport", values.one_of(list(TRANSPORTS))),
        testbeds=_testbeds(config, inventory, trouble),
        testbed_asked=bool(config.getoption(long_of("--testbed"))),
        connections=_listed(config, "--connections", values.connections),
        payloads=_listed(config, "--payload", parse_bytes),
        factors={name: _listed(config, f"--{name}", factor.parse) for name, (_, factor) in FACTORS.items()},
        design=_design(config),
        reference=_setting(config, "--reference", values.reference),
        margin=_setting(config, "--margin", lambda text: Margin.parse(text) if text else None),
        client=_setting(config, "--client", values.one_of(CLIENTS)),
        rate_per_s=_setting(config, "--arrivals", values.rate),
        workers=_setting(config, "--ipperf-workers", values.workers),
        server=_setting(config, "--ipperf-server", values.server),
        backend=_setting(config, "--ipperf-backend", values.backend),
        capture=_setting(config, "--ipperf-capture", values.capture),
        reboot=_setting(config, "--ipperf-reboot", values.one_of(("no", "yes"))) == "yes",
        inventory=inventory,
        inventory_trouble=trouble,
        seed=_setting(config, "--ipperf-seed", values.seed) if seed is None else seed,
        seed_asked=seed is None and bool(_setting(config, "--ipperf-seed", str)),
        resume=config.getoption("--ipperf-resume"),
        budget_s=_setting(config, "--ipperf-budget", lambda text: parse_seconds(text) if text else None),
        twin=_setting(config, "--ipperf-twin", values.one_of(("no", "yes"))) == "yes",
        fail_inconclusive=_setting(config, "--ipperf-inconclusive", values.one_of(("report", "fail"))) == "fail",
        deadline_s=_setting(config, "--ipperf-deadline", values.deadline),
        wait_s=_setting(config, "--ipperf-wait", parse_seconds),
        records=config.rootpath / _setting(config, "--ipperf-records", str),
        saved=_setting(config, "--ipperf-save", values.saved),
        baseline=_setting(config, "--baseline", str),
        flags=_once(config, "--ipperf-exceeds", lambda text: values.one_of(("fail", "flag"))(text or "fail")) == "flag",
        outcome=config.invocation_params.dir / told if (told := config.getoption("--ipperf-outcome")) else None,
        only=_once(config, "--ipperf-only", partial(values.listed, config.invocation_params.dir)),
    )
    _check_arms(settings)
    return settings


def _setting(config: pytest.Config, option: str, read: Callable[[str], Any]) -> Any:
    asked = config.getoption(long_of(option))
    try:
        return read(config.getini(ini_of(option)) if asked is None else asked)
    except UsageError as error:
        where = f"ini {ini_of(option)}" if asked is None else option
        raise UsageError(f"{where}: {error}") from None


def _once(config: pytest.Config, option: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(config.getoption(long_of(option)))
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def _design(config: pytest.Config) -> Design:
    """The design with what is asked for in place of its own."""
    design: Design = _setting(config, "--design", design_named)
    asked = {
        "run_s": _setting(config, "--duration", values.duration),
        "alpha": _once(config, "--ipperf-level", values.level),
    }
    return dataclasses.replace(design, **{name: value for name, value in asked.items() if value is not None})


def _listed(config: pytest.Config, option: str, read: Callable[[str], Any]) -> tuple[Any, ...]:
    return _read_list(*_told(config, option), read)


def _told(config: pytest.Config, option: str) -> tuple[str, list[str]]:
    """Return where the comma lists of a filter or level stand, and the lists: the command line before the ini file."""
    asked = config.getoption(long_of(option))
    return (option, asked) if asked else (f"ini {ini_of(option)}", config.getini(ini_of(option)))


def _read_list(option: str, told: Sequence[str], read: Callable[[str], Any]) -> tuple[Any, ...]:
    texts = [part.strip() for each in told for part in each.split(",")]
    try:
        return tuple(dict.fromkeys(read(text) for text in texts))
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def inventory_path(config: pytest.Config) -> Path:
    """Return where the inventory lies, or would lie."""
    asked: str = config.getoption("--ipperf-hosts")
    named: str = config.getini("ipperf_hosts")
    return config.invocation_params.dir / asked if asked else config.rootpath / named


def _inventory(config: pytest.Config) -> tuple[dict[str, Testbed], str]:
    """The inventory, and what is wrong with one that nobody named: a `hosts.ini` may be that of another tool."""
    path = inventory_path(config)
    named = config.getoption("--ipperf-hosts") or config.getini("ipperf_hosts") != HOSTS
    if not named and not path.exists():
        return dict(BUILTIN), ""
    try:
        return read_inventory(path), ""
    except UsageError as error:
        if named:
            raise
        return dict(BUILTIN), str(error)


def _rated(config: pytest.Config, inventory: dict[str, Testbed]) -> dict[str, Testbed]:
    """The testbeds with a rate that are asked for, by option or by the id of a test: such as `lab.100mbit`."""
    _, told = _told(config, "--testbed")
    named = [name.strip() for each in told for name in each.split(",")]
    for argument in config.args:
        for match in re.finditer(_NAMED, argument):  # parameters of the suite's own may stand before it
            parts = match[1].split("-")
            named += ["-".join(parts[at:]) for at in range(len(parts))]
    found = {}
    for name in named:
        with contextlib.suppress(UsageError):  # which is told where the option is read; ids are anybody's
            if testbed := rated(name, inventory):
                found[name] = testbed
    return found


def _testbeds(config: pytest.Config, inventory: dict[str, Testbed], trouble: str) -> tuple[str, ...]:
    source, told = _told(config, "--testbed")
    if told and trouble:
        raise UsageError(trouble)
    return _read_list(source, told, lambda text: testbed_of(text, inventory).name)


def _check_arms(settings: Settings) -> None:
    """A selection that leaves nothing to compare is a mistake of the question, not an empty result.

    With its twin the reference is something to compare, whatever the filters say.
    """
    for transport in settings.transports:
        if settings.ipvers == (4,):
            Arm(4, transport)  # which says in words that IPv4 is always native
    arms = {
        Arm(ipver, transport)
        for transport in settings.transports or TRANSPORTS
        for ipver in TRANSPORTS[transport].ipvers
        if not settings.ipvers or ipver in settings.ipvers
    }
    if arms == {settings.reference} and not settings.twin:
        raise UsageError(
            f"the filters leave only the reference arm {settings.reference}, which is compared with nothing; "
            f"add --ipver={10 - settings.reference.ipver}, or choose another arm with --reference"
        )
