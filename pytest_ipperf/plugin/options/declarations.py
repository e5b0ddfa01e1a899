"""Declare the names of all options, their ini twins and their help. This module must load nothing that takes long.

Each option is registered as `--ipperf-NAME`, with `ipperf_NAME` as its `dest` and ini key, so that it meets none of
another plugin or of a conftest. The tables, and all sentences, call the options in `SHORT` by their short names, which
are never registered (see `aliases`).

Filters deselect what the suite declares, levels replace the suite's own, settings hold for the session.
"""

from __future__ import annotations

import pytest

from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS

CLIENTS = ("lean", "library")
HOSTS = "hosts.ini"
ALIASES = "ipperf_aliases"
"""The ini key that switches the short names off."""
_LONG = "--ipperf-"

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
    ("--ipperf-resume", "last|FOLDER", ("reuse what an earlier session has measured whole, and measure the rest; "
     "the session is the last one, or that of a folder of records")),
    ("--ipperf-only", "FILE", "measure only the items whose node ids are the lines of this file"),
    ("--ipperf-exceeds", "fail|flag", ("whether a cell beyond its margin fails (default), or is flagged for another "
     "measurement, as pytest-ipperf night does")),
    ("--ipperf-outcome", "FILE", "write there at the end, as JSON, how the session ended and where its records are"),
    ("--ipperf-testbeds", "FILE", ("write there, as JSON, the testbeds and the inventory of this session, and measure "
     "nothing; pytest-ipperf doctor asks")),
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
      "names such as postfix,bind, with one of these words for the other protocols")),
    ("--ipperf-backend", "NAME", "", ("what encapsulates the packets of tunnel and isatap, in place of what the "
     "inventory says: auto (the best that works in a lab, the kernel's driver of hosts) or the name of one, such as "
     "kernel")),
    ("--ipperf-capture", "N", "0", "keep the first N packets of every run on every host, as pcap beside the records"),
    ("--ipperf-reboot", "no|yes", "no", ("whether every host is started anew before each epoch but the first, by its "
     "command in hosts.ini")),
    ("--ipperf-hosts", "FILE", HOSTS, "the inventory of testbeds and hosts"),
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
LISTS = (*FILTERS, *LEVELS, *((f"--{name}", factor.title.upper().replace(" ", "_"), f"levels of {of}: {factor.help}")
                             for name, (of, factor) in FACTORS.items()))  # fmt: skip
"""Filters and levels, the protocols' own among these: comma lists, and repeatable."""
SHORT = {name: metavar for name, metavar, *_ in (*LISTS, *SETTINGS) if not name.startswith(_LONG)}
"""The short names, and what stands for their values."""


ANSWER = "--ipperf-testbeds"
"""The option that asks something in place of a session."""
ABOUT_THE_SESSION = frozenset({"--baseline", "--ipperf-only", "--ipperf-outcome", "--ipperf-resume"})
"""The options that count for a session whatever it collects."""

MARKERS = (
    "levels(connections=[...], payload=[...]): the everyday levels of it and of its protocol (pytest-ipperf)",
    "grid(connections=[...], payload=[...]): the levels under --design=paper, where they differ (pytest-ipperf)",
    'metric("loss"): which of its metrics a measurement is judged by, without it the first (pytest-ipperf)',
    'margin("10%", at_least="0.5ms"): how much worse than the reference is acceptable (pytest-ipperf)',
    "arm(ipver, transport, twin): set on every measurement, for -m 'arm(ipver=6)' (pytest-ipperf)",
)


def register_markers(config: pytest.Config) -> None:
    """Our own markers and one for each protocol, so that a misspelt one is an error."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    for name in PROTOCOLS:
        config.addinivalue_line("markers", f"{name}: measurements of {name.upper()} (pytest-ipperf)")


def given(config: pytest.Config) -> list[str]:
    """Return the options that the arguments have, in the order of the tables."""
    names = (name for name, *_ in (*LISTS, *SETTINGS, *ONCE))
    return [name for name in names if config.getoption(long_of(name)) not in (None, [], "")]


def long_of(option: str) -> str:
    """Return the name under which an option is registered: `--testbed` is `--ipperf-testbed`."""
    return option if option.startswith(_LONG) else _LONG + option.removeprefix("--")


def ini_of(option: str) -> str:
    """Return the ini key of an option: `--testbed` has `ipperf_testbed`."""
    return long_of(option).removeprefix("--").replace("-", "_")


def add_options(parser: pytest.Parser) -> None:
    """Register everything; the values are checked when they are read."""
    group = parser.getgroup("ipperf", "network measurements (pytest-ipperf)")
    for name, metavar, text in LISTS:
        notes = f"comma list, repeatable; ini: {ini_of(name)}; short: {name}"
        group.addoption(long_of(name), action="append", default=[], metavar=metavar, help=f"{text} ({notes})")
        parser.addini(ini_of(name), f"twin of {long_of(name)}, which comes before it", type="args", default=[])
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
        "whether the short names of options, such as --testbed for --ipperf-testbed, are read where nobody else has "
        "registered them",
        type="bool",
        default=True,
    )
