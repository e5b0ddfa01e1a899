"""Rows of the documentation's tables that the code says: `python -m tests.project.doc_tables` writes them anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_ipperf.agent.facts import FACTS
from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.rpc.handlers import HANDLERS
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.cli.commands import COMMANDS
from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, FLOWS, QUERIES, TRANSFERS
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.doctor.checks import CHECKS
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS, flow, of_kind
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.transports import TRANSPORTS

DOCS = Path(__file__).parents[2] / "docs"
REGISTRIES: Mapping[str, Registry] = {
    "protocols/": PROTOCOLS,
    "servers/": SERVERS,
    "transports/": TRANSPORTS,
    "metrics/": METRICS,
    "lab/access/": ACCESS_METHODS,
    "agent/tunnels/backends/": BACKENDS,
    "agent/flows/engines/": ENGINES,
    "agent/facts/": FACTS,
    "agent/rpc/handlers/": HANDLERS,
    "lab/doctor/checks/": CHECKS,
    "report/formats/": FORMATS,
    "cli/commands/": COMMANDS,
}


def registries():
    for folder, things in REGISTRIES.items():
        yield f"`{folder}`", f"`{things.offers}`", ", ".join(f"`{name}`" for name in things)


def markers():
    for name, protocol in PROTOCOLS.items():
        assert protocol.summary, f"{name} has no summary for docs/suites.md"
        yield f"`{name}`", protocol.summary + ("" if protocol.kind == CONNECTIONS else "; see [flows](flows.md)")


def servers():
    for name, server in sorted(SERVERS.items(), key=lambda each: (each[1].protocol == "any", each[1].protocol,
                                                                  each[1].embedded, each[0])):  # fmt: skip
        needs = server.needs or ("nothing" if server.embedded else "any user")
        if not server.embedded:
            needs = f"Debian package `{server.apt}`; {needs}"
        elif server.packages:
            listed = ", ".join(f"`{each}`" for each in server.packages)
            needs = f"Python package {listed}; comes with the project, and is sent to hosts that lack it"
        yield f"`{name}`", server.protocol, "embedded" if server.embedded else "real", needs


def metrics():
    flows = {name: flow(name) for name in sorted([*of_kind(FLOWS), *of_kind(TRANSFERS), *of_kind(QUERIES)])}
    for name in dict.fromkeys(each for protocol in flows.values() for each in protocol.metrics):
        metric = METRICS[name].metric
        of = ", ".join(f"`{protocol}`" for protocol in flows if name in flows[protocol].metrics)
        yield f"`{name}`", of, metric.formula, metric.unit, metric.scale, f"`{metric.margin}`", metric.source


def commands():
    for name, command in COMMANDS.items():
        yield f"`pytest-ipperf {name}`", command.help


TABLES = {
    ("index.md", "| command |"): commands,
    ("architecture.md", "| registry |"): registries,
    ("flows.md", "| metric | of |"): metrics,
    ("servers.md", "| server | protocol |"): servers,
    ("suites.md", "| marker |"): markers,
}
"""By page and beginning of a table's head what gives its rows; rows below them that are no names of things stay."""


def written(text: str, head: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return a page's text with these rows in its table."""
    lines = text.split("\n")
    (start,) = (at for at, line in enumerate(lines) if line.startswith(head))
    end = next(at for at in range(start, len(lines)) if not lines[at].startswith("|"))
    others = [line for line in lines[start + 2 : end] if not re.match(r"\| `[\w/ -]+` \|", line)]
    made = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines[: start + 2], *made, *others, *lines[end:]])


def main() -> None:
    for (name, head), rows in TABLES.items():
        path = DOCS / name
        path.write_text(written(path.read_text(encoding="utf-8"), head, rows()), encoding="utf-8")


if __name__ == "__main__":
    main()
