"""Read the options, which `declarations` declares, into a frozen `Settings`.

Invalid values are rejected here with a one-line error that names the option by its short name
(see `aliases.spell_options`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

# Not by `from`, which would take the attribute of a module that pytester has removed.
import pytest_ipperf.plugin.options.parsers as values
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import Design, design_named
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.margin import Margin, failure_margin
from pytest_ipperf.core.design.payload_preset import parse_payload
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.core.portable.units import parse_seconds
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.inventory.builtin import BUILTIN, testbed_of, with_rate
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.plugin.options.declarations import CLIENTS, FACTORS, HOSTS, LISTS, ONCE, ini_of, long_of
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.store import FRESH
from pytest_ipperf.traffic_models import TrafficModels, shipped_models
from pytest_ipperf.transports import TRANSPORTS

# Matches the testbed in a test id.
_NAMED = rf"\[(.+?)-(?:{'|'.join(PROTOCOLS)})-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The user's settings for a session. Empty filters and levels are those not given."""

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
    failures: Margin
    failures_asked: bool
    limits: tuple[Limit, ...]
    confirm: bool
    client: str
    rate_per_s: float
    workers: int
    server: str
    backend: str
    capture: int
    reboot: bool
    inventory: dict[str, Testbed]
    inventory_trouble: str
    models: TrafficModels
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


_SWITCH = values.one_of(("no", "yes"))
_READ: Mapping[str, Callable[[str], Any]] = {
    "--ipver": values.ip_version,
    "--transport": values.one_of(list(TRANSPORTS)),
    "--connections": values.connections,
    "--payload": parse_payload,
    **{f"--{name}": factor.parse for name, factor in FACTORS.items()},
    "--design": design_named,
    "--duration": values.duration,
    "--reference": values.reference,
    "--margin": lambda text: Margin.parse(text) if text else None,
    "--ipperf-failures": failure_margin,
    "--ipperf-limit": Limit.parse_pair,
    "--ipperf-confirm": _SWITCH,
    "--client": values.one_of(CLIENTS),
    "--arrivals": values.rate,
    "--ipperf-workers": values.workers,
    "--ipperf-server": values.server,
    "--ipperf-backend": values.backend,
    "--ipperf-capture": values.capture,
    "--ipperf-reboot": _SWITCH,
    "--ipperf-seed": lambda text: values.seed(text) if text else None,
    "--ipperf-budget": lambda text: parse_seconds(text) if text else None,
    "--ipperf-twin": _SWITCH,
    "--ipperf-inconclusive": values.one_of(("report", "fail")),
    "--ipperf-deadline": values.deadline,
    "--ipperf-wait": parse_seconds,
    "--ipperf-records": values.folder,
    "--ipperf-save": values.saved,
    "--baseline": str,
    "--ipperf-exceeds": lambda text: values.one_of(("fail", "flag"))(text or "fail"),
    "--ipperf-level": values.level,
}
"""Parsers of the options whose value can be parsed on its own."""
_ARMS = frozenset({"--ipver", "--transport"})
_LISTED = frozenset(name for name, *_ in LISTS)
_ONCE = frozenset(name for name, *_ in ONCE)
_INVENTORY: pytest.StashKey[tuple[dict[str, Testbed], str]] = pytest.StashKey()


def check(config: pytest.Config, given: Collection[str]) -> None:
    """Raise UsageError for an invalid option among those given, whether or not anything is measured.

    The ini file is consulted only where a given option cannot be checked without it.
    """
    for option in given:
        if option in _READ:
            _read(config, option)
    if "--testbed" in given:
        _testbeds(config, *_known_testbeds(config))
    elif "--ipperf-hosts" in given:
        _inventory(config)
    if "--ipperf-models" in given:
        _models(config)
    if _ARMS & set(given):
        _check_arms(ipvers=_read(config, "--ipver"), transports=_read(config, "--transport"))


def read_settings(config: pytest.Config, seed: int) -> Settings:
    """Return the settings of a session, with `seed` unless one was given; raise UsageError for an invalid value."""
    inventory, trouble = _known_testbeds(config)
    read, asked_seed = partial(_read, config), _read(config, "--ipperf-seed")
    settings = Settings(
        ipvers=read("--ipver"),
        transports=read("--transport"),
        testbeds=_testbeds(config, inventory, trouble),
        testbed_asked=bool(config.getoption(long_of("--testbed"))),
        connections=read("--connections"),
        payloads=tuple(dict.fromkeys(size for sizes in read("--payload") for size in sizes)),
        factors={name: read(f"--{name}") for name in FACTORS},
        design=_design(config),
        reference=read("--reference"),
        margin=read("--margin"),
        failures=read("--ipperf-failures"),
        failures_asked=bool(config.getoption(long_of("--ipperf-failures"))),
        limits=read("--ipperf-limit"),
        confirm=read("--ipperf-confirm") == "yes",
        client=read("--client"),
        rate_per_s=read("--arrivals"),
        workers=read("--ipperf-workers"),
        server=read("--ipperf-server"),
        backend=read("--ipperf-backend"),
        capture=read("--ipperf-capture"),
        reboot=read("--ipperf-reboot") == "yes",
        inventory=inventory,
        inventory_trouble=trouble,
        models=_models(config),
        seed=seed if asked_seed is None else asked_seed,
        seed_asked=asked_seed is not None,
        resume=config.getoption("--ipperf-resume"),
        budget_s=read("--ipperf-budget"),
        twin=read("--ipperf-twin") == "yes",
        fail_inconclusive=read("--ipperf-inconclusive") == "fail",
        deadline_s=read("--ipperf-deadline"),
        wait_s=read("--ipperf-wait"),
        records=config.rootpath / read("--ipperf-records"),
        saved=read("--ipperf-save"),
        baseline=read("--baseline"),
        flags=read("--ipperf-exceeds") == "flag",
        outcome=config.invocation_params.dir / path if (path := config.getoption("--ipperf-outcome")) else None,
        only=_read_argument("--ipperf-only", partial(values.listed, config.invocation_params.dir), config),
    )
    _check_arms(ipvers=settings.ipvers, transports=settings.transports)
    if settings.saved.endswith(FRESH) and settings.only is None:
        raise UsageError(f"--ipperf-save: names that end in {FRESH!r}, as {settings.saved!r} does, are those of nights")
    return settings


def _read(config: pytest.Config, option: str) -> Any:
    """Return the parsed value of an option: from the arguments, else from its ini key if it has one."""
    if option in _LISTED:
        return _read_list(*_source_texts(config, option), _READ[option])
    if option in _ONCE:
        return _read_argument(option, _READ[option], config)
    asked = config.getoption(long_of(option))
    if asked is None:
        return _parse(f"ini {ini_of(option)}", _READ[option], config.getini(ini_of(option)))
    if not asked and option == "--margin":  # as of an unset variable; an empty ini key means each test's own
        raise UsageError(f"{option}: it has no value; give one, or leave the option out")
    return _parse(option, _READ[option], asked)


def _read_argument(option: str, read: Callable[[str], Any], config: pytest.Config) -> Any:
    return _parse(option, read, config.getoption(long_of(option)))


def _parse(source: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def _design(config: pytest.Config) -> Design:
    """Return the design, with `--duration` and `--ipperf-level` in place of its own values."""
    design: Design = _read(config, "--design")
    run_s, alpha = _read(config, "--duration"), _read(config, "--ipperf-level")
    if run_s is not None:
        design = dataclasses.replace(design, run_s=run_s, own_duration=True)
    return design if alpha is None else dataclasses.replace(design, alpha=alpha)


def _source_texts(config: pytest.Config, option: str) -> tuple[str, list[str]]:
    """Return the source and the comma lists of a filter or level; the command line takes precedence over the ini."""
    asked = config.getoption(long_of(option))
    return (option, asked) if asked else (f"ini {ini_of(option)}", config.getini(ini_of(option)))


def _read_list(option: str, texts: Sequence[str], read: Callable[[str], Any]) -> tuple[Any, ...]:
    parts = [part.strip() for each in texts for part in each.split(",")]
    try:
        return tuple(dict.fromkeys(read(part) for part in parts))
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def inventory_path(config: pytest.Config) -> Path:
    """Return the path of the inventory, which may not exist."""
    asked: str = config.getoption("--ipperf-hosts")
    named: str = config.getini("ipperf_hosts")
    return config.invocation_params.dir / asked if asked else config.rootpath / named


def _models(config: pytest.Config) -> TrafficModels:
    """Return the traffic models; those of the user's folder are read at once, so that mistakes are reported early."""
    asked: str = config.getoption("--ipperf-models")
    named: str = config.getini("ipperf_models")
    if not asked and not named:
        return shipped_models()
    models = TrafficModels([config.invocation_params.dir / asked if asked else config.rootpath / named])
    models.check_own()
    return models


def _known_testbeds(config: pytest.Config) -> tuple[dict[str, Testbed], str]:
    """Return the testbeds of the inventory and those with a rate, and the inventory's error, if any."""
    inventory, trouble = _inventory(config)
    return inventory | _rated(config, inventory), trouble


def _inventory(config: pytest.Config) -> tuple[dict[str, Testbed], str]:
    """Return the inventory, and the error of one that was not named: a `hosts.ini` may belong to another tool."""
    if _INVENTORY not in config.stash:
        config.stash[_INVENTORY] = _read_inventory(config)
    return config.stash[_INVENTORY]


def _read_inventory(config: pytest.Config) -> tuple[dict[str, Testbed], str]:
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
    """Return the requested testbeds with a rate, such as `lab.100mbit`, from the option and from test ids."""
    _, texts = _source_texts(config, "--testbed")
    named = [name.strip() for each in texts for name in each.split(",")]
    for argument in config.args:
        for match in re.finditer(_NAMED, argument):  # the suite's own parameters may precede the testbed
            parts = match[1].split("-")
            named += ["-".join(parts[at:]) for at in range(len(parts))]
    found = {}
    for name in named:
        with contextlib.suppress(UsageError):  # reported where the option is read; an id may be of any test
            if testbed := with_rate(name, inventory):
                found[name] = testbed
    return found


def _testbeds(config: pytest.Config, inventory: dict[str, Testbed], trouble: str) -> tuple[str, ...]:
    source, texts = _source_texts(config, "--testbed")
    if texts and trouble:
        raise UsageError(trouble)
    return _read_list(source, texts, lambda text: testbed_of(text, inventory).name)


def _check_arms(*, ipvers: tuple[int, ...], transports: tuple[str, ...]) -> None:
    """Raise UsageError for a combination of filters that no arm has."""
    for transport in transports:
        if ipvers == (4,):
            Arm(4, transport)  # raises UsageError: IPv4 is always native


def only_reference(settings: Settings) -> str:
    """Return the message about filters that leave nothing to compare with the reference; empty for others.

    Its twin can always be compared with the reference, whatever the filters, and limits need no comparison.
    """
    reference = settings.reference
    arms = {
        Arm(ipver, transport)
        for transport in settings.transports or TRANSPORTS
        for ipver in TRANSPORTS[transport].ipvers
        if not settings.ipvers or ipver in settings.ipvers
    }
    if arms != {reference} or settings.twin:
        return ""
    return (
        f"the filters leave only the reference arm {reference}, which is compared with nothing; "
        f"add --ipver={10 - reference.ipver}, or choose another arm with --reference"
    )
