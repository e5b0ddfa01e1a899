"""Declare the names of all options, their ini twins and their help. This module must import nothing slow.

Each option is registered as `--ipperf-NAME`, with `ipperf_NAME` as its `dest` and ini key, so that it cannot clash with
one of another plugin or of a conftest. The tables here and all messages call the options in `SHORT` by their short
names, which are never registered (see `aliases`).

Filters deselect items of the suite, levels replace the suite's levels, settings hold for the session.
"""

from __future__ import annotations

import pytest

from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.payload_preset import PRESETS
from pytest_ipperf.core.portable.factor import Factor
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS

CLIENTS = ("lean", "library")
HOSTS = "hosts.ini"
ALIASES = "ipperf_aliases"
"""Ini key that disables the short names."""
_LONG = "--ipperf-"

FILTERS = (
    ("--ipver", "4|6", "measure only these IP versions; 6 selects every IPv6 arm and measures the reference with them"),
    ("--transport", "NAME", f"measure only these transports: {', '.join(TRANSPORTS)}"),
    ("--testbed", "NAME", ("measure on these testbeds: lab (client, router and server as namespaces of this machine), "
                           "pair (without the router), either with any rate (lab.100mbit), loopback, or one of "
                           "hosts.ini; by default lab if it works here, else loopback")),
)  # fmt: skip
LEVELS = (
    ("--connections", "N", "simultaneous connections, such as 1,10,100; replaces the suite's levels"),
    ("--payload", "SIZE", ("size of page, file, message or query, such as 1k,64k, or a preset of sizes: "
                           f"{', '.join(PRESETS)}; replaces the suite's levels")),
)  # fmt: skip
LIMITS = (
    ("--ipperf-limit", "FIGURE:VALUE", ("absolute bound on a figure of every measured arm, such as p95:20ms, mean:5ms, "
     "failed_share:0.1pp or throughput:90mbit; replaces the limits of that figure that tests have")),
)  # fmt: skip
FLOW_NAMES = [name for name in PROTOCOLS if PROTOCOLS[name].kind != CONNECTIONS]
FACTORS = {factor.name: factor for name in PROTOCOLS for factor in PROTOCOLS[name].factors}
"""The factors of protocols by name; an option of that name sets the levels."""


def owners(factor: Factor) -> list[str]:
    """Return the names of the protocols that have a factor."""
    return [name for name in PROTOCOLS if factor in PROTOCOLS[name].factors]


def _owner(factor: Factor) -> str:
    names = owners(factor)
    return "every protocol" if names == list(PROTOCOLS) else ", ".join(names)


ONCE = (
    ("--ipperf-resume", "last|FOLDER", ("reuse the workloads that an earlier session has measured completely, and "
     "measure the rest; the session is the last one, or the one in a folder of records")),
    ("--ipperf-only", "FILE", "measure only the items whose node ids are the lines of this file"),
    ("--ipperf-exceeds", "fail|flag", ("whether a cell that exceeds its margin fails (default), or is flagged for "
     "another measurement, as pytest-ipperf night does")),
    ("--ipperf-outcome", "FILE", "write to this file, as JSON, how the session ended and where its records are"),
    ("--ipperf-testbeds", "FILE", ("write to this file, as JSON, the testbeds and the inventory of this session, and "
     "measure nothing; used by pytest-ipperf doctor")),
    ("--ipperf-level", "P", "one-sided level of a verdict, such as 0.01; replaces the design's level"),
)  # fmt: skip
"""Settings for a single session, which therefore have no ini twin."""
SETTINGS = (
    ("--design", "NAME", "quick", "how much to measure: "
     + "; ".join(f"{d.name} ({d.size_text()}: {d.purpose})" for d in DESIGNS.values())),
    ("--duration", "TIME", "", f"length of a run of {', '.join(FLOW_NAMES)}, such as 10s; replaces the design's"),
    ("--reference", "ARM", "ipv4", "arm that every other is compared with, measured in the same blocks"),
    ("--margin", "MARGIN", "", ("acceptable change from the reference, such as 10%%,0.5ms of a time, "
     "1pp or 10%%,0.5pp of a share, 5%%+headers of a throughput; replaces the suite's margins")),
    ("--ipperf-failures", "POINTS", "1pp", ("acceptable difference of the failed connections from the reference, in "
     "percentage points; a cell is green only if its metric and its failures are both within their margins")),
    ("--ipperf-confirm", "no|yes", "no", ("whether a cell that exceeds its margin is measured again in fresh epochs, "
     "which alone decide it, at a level that all selected cells share")),
    ("--client", "NAME", "lean", ("measuring client: lean (the instrument) or library (what an application sees: "
     "aiohttp, aioftp, aiosmtplib, aioimaplib, asyncio)")),
    ("--arrivals", "closed|RATE", "closed", ("how connections begin: closed (all at once), or one by one at a rate "
     "such as 200/s (at random instants, without waiting for earlier ones to end)")),
    ("--ipperf-workers", "N", "1", "number of client processes that share the connections of a burst"),
    ("--ipperf-server", "NAME", "auto", ("auto (the host's own program, else the embedded server), real, embedded, or "
      "names such as postfix,bind, with one of these words for the other protocols")),
    ("--ipperf-backend", "NAME", "", ("backend that encapsulates the packets of tunnel and isatap: auto (in a lab the "
     "best that works, on hosts the kernel's driver) or a name such as kernel; replaces the inventory's")),
    ("--ipperf-capture", "N", "0", "keep the first N packets of every run on every host, as pcap beside the records"),
    ("--ipperf-reboot", "no|yes", "no", ("whether to reboot every host before each epoch but the first, by its "
     "command in hosts.ini")),
    ("--ipperf-hosts", "FILE", HOSTS, "inventory of testbeds and hosts"),
    ("--ipperf-models", "FOLDER", "", "folder of further traffic models, which are found before the package's own"),
    ("--ipperf-seed", "N", "", "seed of the order of measurement; by default a new one, which the header prints"),
    ("--ipperf-budget", "TIME", "", "time for all measurements, such as 5min; cells that do not fit are INCONCLUSIVE"),
    ("--ipperf-twin", "no|yes", "no", ("whether to measure the reference twice, the second time as an arm of its own "
     "(A/A check): the networks cannot cause a difference between the two")),
    ("--ipperf-inconclusive", "report|fail", "report", "whether a cell with too little evidence fails the session"),
    ("--ipperf-deadline", "TIME", "10s", "a connection that has not ended by then has failed"),
    ("--ipperf-wait", "TIME", "10min", "how long to wait for a host on which another job is measuring"),
    ("--ipperf-records", "FOLDER", ".ipperf", "folder for records and raw samples"),
    ("--ipperf-save", "NAME", "", "name under which to save this session, for later ones to compare with"),
    ("--baseline", "NAME|last|FOLDER", "", ("show at the end what has changed since the last session saved under that "
     "name, the last one of all, or the one in a folder of records; the exit status does not depend on it (use "
     "pytest-ipperf night for that)")),
)  # fmt: skip
LISTS = (*FILTERS, *LEVELS, *LIMITS,
         *((f"--{name}", factor.title.upper().replace(" ", "_"), f"levels of {_owner(factor)}: {factor.help}")
                             for name, factor in FACTORS.items()))  # fmt: skip
"""Filters, levels and limits, including the levels of the protocols' own factors: comma lists, repeatable."""
SHORT = {name: metavar for name, metavar, *_ in (*LISTS, *SETTINGS) if not name.startswith(_LONG)}
"""The short names with the placeholders of their values."""

ANSWER = "--ipperf-testbeds"
"""The option that asks for information instead of a session."""
ABOUT_THE_SESSION = frozenset({"--baseline", "--ipperf-only", "--ipperf-outcome", "--ipperf-resume"})
"""Options that concern the session itself, whatever it collects."""

MARKERS = (
    "levels(connections=[...], payload=[...]): the everyday levels of a test, its protocol's included (pytest-ipperf)",
    "grid(connections=[...], payload=[...]): the levels under --design=paper, where they differ (pytest-ipperf)",
    'metric("loss"): the metric by which a measurement is judged, by default the protocol\'s first (pytest-ipperf)',
    (
        'margin("10%", at_least="0.5ms", failures="1pp"): the acceptable change from the reference, and that of the '
        "failed connections (pytest-ipperf)"
    ),
    (
        'tail("10%,0.5ms"): judge also the connections that are slower than the reference\'s 99th percentile by more '
        "(pytest-ipperf)"
    ),
    (
        'limit("p95", "20ms"): an absolute bound on a figure of each arm: p50, p95, p99, p999, mean, failed_share, or '
        "throughput from below; a test with limits alone measures no reference (pytest-ipperf)"
    ),
    (
        'compare("offload", transport=["native"]): compare the levels of this factor, the first of which is the '
        "reference, instead of IP versions and transports (pytest-ipperf)"
    ),
    "arm(ipver, transport, twin, level): set on every measurement, for -m 'arm(ipver=6)' (pytest-ipperf)",
)


def register_markers(config: pytest.Config) -> None:
    """Register our markers and one for each protocol, so that a misspelt one is an error."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    for name in PROTOCOLS:
        config.addinivalue_line("markers", f"{name}: measurements of {name.upper()} (pytest-ipperf)")


def given(config: pytest.Config) -> list[str]:
    """Return the options given in the arguments, in the order of the tables."""
    names = (name for name, *_ in (*LISTS, *SETTINGS, *ONCE))
    return [name for name in names if config.getoption(long_of(name)) not in (None, [], "")]


def long_of(option: str) -> str:
    """Return the name under which an option is registered: `--testbed` is `--ipperf-testbed`."""
    return option if option.startswith(_LONG) else _LONG + option.removeprefix("--")


def ini_of(option: str) -> str:
    """Return the ini key of an option: `--testbed` has `ipperf_testbed`."""
    return long_of(option).removeprefix("--").replace("-", "_")


def add_options(parser: pytest.Parser) -> None:
    """Register all options and ini keys; their values are checked when they are read."""
    group = parser.getgroup("ipperf", "network measurements (pytest-ipperf)")
    for name, metavar, text in LISTS:
        notes = f"comma list, repeatable; ini: {ini_of(name)}; short: {name}"
        group.addoption(long_of(name), action="append", default=[], metavar=metavar, help=f"{text} ({notes})")
        parser.addini(ini_of(name), f"ini twin of {long_of(name)}, which takes precedence", type="args", default=[])
    for name, metavar, default, text in SETTINGS:
        notes = f"ini: {ini_of(name)}"
        notes += f"; default {default}" if default else ""
        notes += f"; short: {name}" if name in SHORT else ""
        group.addoption(long_of(name), default=None, metavar=metavar, help=f"{text} ({notes})")
        parser.addini(ini_of(name), text.replace("%%", "%"), type="string", default=default)
    for name, metavar, text in ONCE:
        group.addoption(name, default="", metavar=metavar, help=text)
    parser.addini(
        ALIASES,
        "whether the short names of options, such as --testbed for --ipperf-testbed, are read unless another plugin or "
        "a conftest has registered them",
        type="bool",
        default=True,
    )
