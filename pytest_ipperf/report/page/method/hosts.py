"""Describe the hosts with their versions, and the program and command of a session."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_ipperf.core.nightly.session_summary import HostSummary, SessionSummary
from pytest_ipperf.core.records.history_entry import commit_of
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.words import listed
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, boxed, caption, element, folded, joined
from pytest_ipperf.report.page.method.method import Facts, terms

_AGENT = "agent"
_SHOWN = ("kernel", "machine", "cpu", "cpus", "python", "implementation")
"""Facts that are shown at once; the others are folded below them."""


def environment(summary: SessionSummary) -> Markup:
    """Return the versions of servers, hosts and program, the command line, and all facts of the hosts."""
    beds: dict[str, list[HostSummary]] = defaultdict(list)
    for host in summary.hosts:
        beds[host.testbed].append(host)
    alone = {record.testbed for record in summary.records if record.one_machine}
    shown = [_hosts(name, hosts, one_machine=name in alone) for name, hosts in beds.items()]
    nothing = element("p", "The facts of the hosts were not kept.", class_="soft")
    return joined((terms(_versions(summary)), *(shown or [nothing])))


def versions_text(summary: SessionSummary) -> str:
    """Return versions in a line: `Linux 6.12.5, Python 3.11.7, HTTP server apache 2.4.67`; empty if unknown."""
    kernels = dict.fromkeys(_named(host, "kernel", "Linux") for host in summary.hosts)
    pythons = dict.fromkeys(_named(host, "python", "Python") for host in summary.hosts)
    servers = (f"{listed(protocols)} server {server}" for server, protocols in _software(summary).items())
    return ", ".join(filter(None, (*kernels, *pythons, *servers)))


def _named(host: HostSummary, fact: str, name: str) -> str:
    return f"{name} {host.facts[fact]}" if host.facts.get(fact) else ""


def _servers(summary: SessionSummary) -> Iterator[str]:
    """Yield the server software of each protocol that has one."""
    for server, protocols in _software(summary).items():
        yield f"{server} ({listed(protocols)})"


def _software(summary: SessionSummary) -> dict[str, dict[str, None]]:
    """Return the titles of the protocols that each server program served; flows have none, only agents."""
    found: dict[str, dict[str, None]] = {}
    for record in summary.records:
        if record.server not in ("", _AGENT):
            found.setdefault(record.server, {})[PROTOCOLS[record.protocol].title] = None
    return found


def _versions(summary: SessionSummary) -> Facts:
    asked = summary.question
    arguments = asked.get("arguments")
    command = shlex.join(["pytest", *map(str, arguments)]) if isinstance(arguments, list) else ""
    servers = "; ".join(_servers(summary))
    named = [("pytest-ipperf", "pytest_ipperf"), ("pytest", "pytest"), ("Schema of the records", "schema")]
    return [
        *([("Server software", servers)] if servers else []),
        *((name, str(asked[key])) for name, key in named if key in asked),
        *([("Commit", commit)] if (commit := commit_of(asked)) else []),
        *([("Command", command)] if command else []),
        ("Records", str(summary.folder)),
    ]


def _hosts(testbed: str, hosts: Sequence[HostSummary], *, one_machine: bool) -> Markup:
    """Return the facts of hosts: kernel, processor and Python at once, the others folded."""
    # The server software stands above, as it may differ from workload to workload.
    facts = [{name: text for name, text in _flat(host.facts) if name != "server"} for host in hosts]
    names = list(dict.fromkeys(name for each in facts for name in each))
    main = [name for name in _SHOWN if name in names]
    others = [name for name in names if name not in main]
    title = f"Hosts of testbed {testbed}{', all on one machine' * (one_machine and len(hosts) > 1)}"
    more = folded(f"All other facts of these hosts ({len(others)})", _table(f"{title}, more", hosts, facts, others))
    return joined((_table(title, hosts, facts, main), more if others else NOTHING))


def _table(
    title: str, hosts: Sequence[HostSummary], facts: Sequence[Mapping[str, str]], names: Sequence[str]
) -> Markup:
    """Return facts of hosts, in a column for each."""
    heads = [element("th", _called(host), scope="col") for host in hosts]
    rows = []
    for name in names:
        cells = [element("td", each.get(name, "")) for each in facts]
        rows.append(element("tr", element("th", name, scope="row"), *cells))
    head = element("thead", element("tr", element("td", NOTHING), *heads))
    return boxed(title, element("table", caption(title), head, element("tbody", *rows), class_="facts"))


def _called(host: HostSummary) -> str:
    """Return the name of a host: `client: alpha (198.18.0.1, 2001:2::1)`; in a lab the role alone."""
    name = f": {host.name}" if host.name not in ("", host.role) else ""
    return f"{host.role}{name}" + (f" ({', '.join(host.addresses)})" if host.addresses else "")


def _flat(facts: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    """Yield nested facts under their full names: `sysctl net.core.somaxconn`."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name} ")
        else:
            yield f"{before}{name}", _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
