"""The options: declared once, read once, frozen as `Settings`.

Filters deselect what the suite declares, levels replace the suite's own, settings hold for the session and have an
ini twin `ipperf_NAME`. Whatever makes no sense ends here, in one sentence.
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

from pytest_ipperf.agent.backends import preferred
from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.design import DESIGNS, Design, design_named
from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.factor import Value
from pytest_ipperf.core.margin import Margin
from pytest_ipperf.core.units import parse_bytes, parse_seconds
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.labs import BUILTIN, rated, testbed_of
from pytest_ipperf.lab.testbed import AUTO, Testbed
from pytest_ipperf.plugin import values
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS

CLIENTS = ("lean", "library")
_HOSTS = "hosts.ini"
# The testbed in the id of a test.
_NAMED = rf"\[(.+?)-(?:{'|'.join(PROTOCOLS)})-"

FILTERS = (
    ("--ipver", "4|6", "measure only these IP versions; 6 means every IPv6 arm, and the reference with them"),
    ("--transport", "NAME", f"measure only these transports: {', '.join(TRANSPORTS)}"),
    ("--testbed", "NAME", ("measure on these: lab (client, router and server as namespaces of this machine), pair "
                           "(without the router), either with any rate (lab.100mbit), loopback, or one of hosts.ini; "
                           "without it the better of lab and loopback that works here")),
)  # fmt: skip
LEVELS = (
    ("--connections", "N", "connections at once, in place of the suite's own levels, such as 1,10,100"),
    ("--payload", "SIZE", "size of page, file, message or query, in place of the suite's own levels, such as 1k,64k"),
)
FACTORS = {factor.name: (name, factor) for name in PROTOCOLS for factor in PROTOCOLS[name].factors}
"""The protocols' own, by name: whose they are, and what they are; each has an option of its name for its levels."""

ONCE = (
    ("--ipperf-resume", "last|FOLDER", ("take over what an earlier session has measured whole, and measure the rest; "
     "the session is the last one, or that of a folder of records")),
    ("--ipperf-only", "FILE", "measure only the items whose node ids are the lines of this file"),
    ("--ipperf-exceeds", "fail|flag", ("whether a cell beyond its margin fails (default), or is flagged for another "
     "measurement, as pytest-ipperf night does")),
    ("--ipperf-outcome", "FILE", "write there at the end, as JSON, how the session ended and where its records are"),
    ("--ipperf-level", "P", "the one-sided level of a verdict, in place of the design's own, such as 0.01"),
)  # fmt: skip
"""Settings without an ini twin, as they are meant for one session."""
SETTINGS = (
    ("--design", "NAME", "quick", "how much is measured: "
     + "; ".join(f"{d.name} ({d.size_text()}: {d.purpose})" for d in DESIGNS.values())),
    ("--duration", "TIME", "", "how long a run of tcp, udp or rtt flows, in place of the design's own, such as 10s"),
    ("--reference", "ARM", "ipv4", "the arm that every other is compared with, measured in the same blocks"),
    ("--margin", "MARGIN", "", ("how much worse is acceptable, in place of the suite's margins, such as "
     "10%%,0.5ms of a time, 1pp or 10%%,0.5pp of a share, 5%%+headers of a throughput")),
    ("--client", "NAME", "lean", ("the measuring client: lean (the instrument) or library (what an application feels: "
     "aiohttp, aioftp, aiosmtplib, aioimaplib, asyncio)")),
    ("--arrivals", "closed|RATE", "closed", ("how connections begin: closed (all at once), or one by one at a rate "
     "such as 200/s (at random instants, whatever becomes of those before)")),
    ("--ipperf-workers", "N", "1", "processes of the client that share the connections of a burst"),
    ("--ipperf-server", "NAME", "auto", ("auto (the host's own program, else the embedded server), real, embedded, or "
      f"names, with one of these words for the other protocols: {', '.join(values.MEASURED)}")),
    ("--ipperf-backend", "NAME", "auto", ("what encapsulates the packets of tunnel and isatap: auto (the best that "
     f"works) or one of {', '.join(preferred())}")),
    ("--ipperf-capture", "N", "0", "keep the first N packets of every run on every host, as pcap beside the records"),
    ("--ipperf-reboot", "no|yes", "no", ("whether every host is started anew before each epoch but the first, by its "
     "command in hosts.ini")),
    ("--ipperf-hosts", "FILE", _HOSTS, "the inventory of testbeds and hosts"),
    ("--ipperf-seed", "N", "", "the seed of the order of measurement; without it a new one, which the header prints"),
    ("--ipperf-budget", "TIME", "", "time for all measurements, such as 5min; what does not fit is INCONCLUSIVE"),
    ("--ipperf-twin", "no|yes", "no", ("whether the reference is measured twice, as an arm of its own (A/A): what the "
     "two differ by is no difference of networks")),
    ("--ipperf-inconclusive", "report|fail", "report", "whether too little evidence for a cell fails the session"),
    ("--ipperf-deadline", "TIME", "10s", "a connection without its end by then has failed"),
    ("--ipperf-wait", "TIME", "10min", "how long to wait for a host on which another job measures"),
    ("--ipperf-records", "FOLDER", ".ipperf", "where records and raw samples are kept"),
    ("--ipperf-save", "NAME", "", "the name under which this session is saved, for later ones to compare with"),
    ("--baseline", "NAME|last|FOLDER", "", ("tell at the end what has changed since the last session of that name, the "
     "last one of all, or that of a folder of records; it decides nothing (pytest-ipperf night does)")),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that the user asked for. Empty filters and levels mean: not asked."""

    ipvers: tuple[int, ...]
    transports: tuple[str, ...]
    testbeds: tuple[str, ...]
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


def add_options(parser: pytest.Parser) -> None:
    """Declares everything; the values are checked when they are read."""
    group = parser.getgroup("ipperf", "network measurements (pytest-ipperf)")
    own = [(f"--{name}", factor.title.upper().replace(" ", "_"), f"levels of {of}: {factor.help}")
           for name, (of, factor) in FACTORS.items()]  # fmt: skip
    for name, metavar, text in (*FILTERS, *LEVELS, *own):
        group.addoption(name, action="append", default=[], metavar=metavar, help=f"{text} (comma list, repeatable)")
    for name, metavar, default, text in SETTINGS:
        told = f"; default {default}" if default else ""
        group.addoption(name, default=None, metavar=metavar, help=f"{text} (ini: {_ini(name)}{told})")
        parser.addini(_ini(name), text.replace("%%", "%"), type="string", default=default)
    for name, metavar, text in ONCE:
        group.addoption(name, default="", metavar=metavar, help=text)
    parser.addini("ipperf_testbed", "the testbeds of this project, where --testbed names none", type="args", default=[])


def _ini(option: str) -> str:
    return "ipperf_" + option.removeprefix("--").removeprefix("ipperf-")


def read_settings(config: pytest.Config, seed: int | None) -> Settings:
    """The settings of a session; UsageError where a value makes no sense. `seed` is the controller's, in a worker."""
    inventory, trouble = _inventory(config)
    inventory |= _rated(config, inventory)
    settings = Settings(
        ipvers=_listed(config, "--ipver", values.ip_version),
        transports=_listed(config, "--transport", values.one_of(list(TRANSPORTS))),
        testbeds=_testbeds(config, inventory, trouble),
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
        backend=_setting(config, "--ipperf-backend", values.one_of((AUTO, *preferred()))),
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
    asked = config.getoption(option)
    try:
        return read(config.getini(_ini(option)) if asked is None else asked)
    except UsageError as error:
        where = f"ini {_ini(option)}" if asked is None else option
        raise UsageError(f"{where}: {error}") from None


def _once(config: pytest.Config, option: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(config.getoption(option))
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
    return _read_list(option, config.getoption(option), read)


def _read_list(option: str, told: Sequence[str], read: Callable[[str], Any]) -> tuple[Any, ...]:
    texts = [part.strip() for each in told for part in each.split(",")]
    try:
        return tuple(dict.fromkeys(read(text) for text in texts))
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def _inventory(config: pytest.Config) -> tuple[dict[str, Testbed], str]:
    """The inventory, and what is wrong with one that nobody named: a `hosts.ini` may be that of another tool."""
    asked = config.getoption("--ipperf-hosts")
    path = config.invocation_params.dir / asked if asked else config.rootpath / config.getini("ipperf_hosts")
    named = asked or config.getini("ipperf_hosts") != _HOSTS
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
    _, told = _asked_testbeds(config)
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


def _asked_testbeds(config: pytest.Config) -> tuple[str, list[str]]:
    """Where testbeds are named, and how."""
    asked = config.getoption("--testbed")
    return ("--testbed", asked) if asked else ("ini ipperf_testbed", config.getini("ipperf_testbed"))


def _testbeds(config: pytest.Config, inventory: dict[str, Testbed], trouble: str) -> tuple[str, ...]:
    source, told = _asked_testbeds(config)
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
