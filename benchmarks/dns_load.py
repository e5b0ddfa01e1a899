"""Queries per second of one name server, as ours and dnsperf find it, and the processor time of the client for each.

    python benchmarks/dns_load.py [--rounds 5] [--seconds 3] [--server bind]

Server and client are two hosts joined by a veth pair, each bound to a processor of its own. In each round of an IP
version and a carrier both tools ask the same server for the same name in a closed loop, in random order: one client,
100 queries outstanding, a time-out of a second. Ours compares every answer with what the server was given; dnsperf
compares the identifier. Queries per second are what each reports, the processor time is user and kernel time of the
whole program for each answered query. All figures are medians of the rounds, ratios are taken within a round. A goal is
that ours has at least nine tenths of the answers that dnsperf has, and at most its processor time. `foreign` is the
number of processors that other programs used.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import Popen

from benchmarks.arena import Arena, arena, enter, have, machine
from benchmarks.ends import _asked, _end, _report
from benchmarks.rounds import Goal, head, measured, paired, row, show, spread
from pytest_ipperf.agent.flows.spec import FlowServer, FlowSpec
from pytest_ipperf.agent.host_state.private_dir import populate
from pytest_ipperf.agent.rpc.codec import encoded
from pytest_ipperf.core.portable.dns.zone import label, name_of
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import PROTOCOLS, flow
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site

SERVER = {4: "198.18.0.1", 6: "2001:2::1"}
"""Addresses of the near host on the veth pair, which serves here."""
PORT = 21053
PAYLOAD = 64
OUTSTANDING = 100
NAMES = ("ours", "dnsperf")
LEAST, MOST = 0.9, 1.0


@dataclass(frozen=True)
class Bench:
    """The network with its server, our client's process, the file of dnsperf's queries, and the time of a trial."""

    net: Arena
    client: Popen[str]
    queries: str
    seconds: float


def ours(bench: Bench, ipver: int, carrier: str) -> tuple[float, float]:
    """Return our queries per second, and the client's processor time of a query in us."""
    kind = PROTOCOLS["dns_load"]
    factors = {factor.name: factor.levels[0] for factor in kind.factors if not factor.silent} | {"carrier": carrier}
    spec = FlowSpec(
        engine="dns_load", ipver=ipver, source="", address=SERVER[ipver], ports=(20000, 24999), connections=1,
        payload_bytes=PAYLOAD, factors=factors | {"outstanding": OUTSTANDING}, warmup_s=0.2, run_s=bench.seconds,
        deadline_s=1.0, ident=0, service=FlowServer(port=PORT),
    )  # fmt: skip
    report = _report(_asked(bench.client, encoded(FlowSpec, spec))["report"])
    facts = report.facts
    assert not set(report.failed) - {"no answer"}, report.failed
    return facts["answered"] / facts["seconds"], 1e6 * facts["receiver_cpu_s"] / facts["served"]


def dnsperf(bench: Bench, ipver: int, carrier: str) -> tuple[float, float]:
    """Return the same of dnsperf."""
    done = bench.net.far.run(
        "dnsperf", "-s", SERVER[ipver], "-p", str(PORT), "-m", carrier, "-d", bench.queries, "-e", "-c", "1", "-T", "1",
        "-q", str(OUTSTANDING), "-t", "1", "-l", f"{bench.seconds:g}",
    )  # fmt: skip
    answered = done.number(r"Queries completed:\s+(\d+)")
    assert "NOERROR" in done.said, done.said
    return done.number(r"Queries per second:\s+([\d.]+)"), 1e6 * done.cpu_s / answered


@contextlib.contextmanager
def serving(net: Arena, name: str) -> Iterator[str]:
    """Serve the zone on the near host; yield a file with the query as dnsperf reads it."""
    recipe = SERVERS[name]
    assert not recipe.missing(), recipe.missing()
    state = flow("dns_load").served_state(ServerState(), PAYLOAD)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place, queries = f"{folder}/server", Path(folder, "queries")
        queries.write_text(f"{name_of(label(0, 0))} TXT\n", encoding="ascii")
        site = Site(place, (SERVER[4], SERVER[6]), PORT, 1000, state)
        populate(place, recipe.entries(site))
        with net.near.running(*recipe.argv(site), port=PORT):
            yield str(queries)


def compare(bench: Bench, ipver: int, carrier: str, rounds: int) -> Sequence[Goal]:
    """Print the table of an IP version and a carrier, and return its goals."""
    kinds = {"ours": ours, "dnsperf": dnsperf}
    tools = {name: partial(kinds[name], bench, ipver, carrier) for name in NAMES}
    found: Mapping[str, list[tuple[float, ...]]] = measured(tools, rounds, f"dns/{ipver}/{carrier}")
    rates = {name: [trial[0] for trial in found[name]] for name in NAMES}
    cpu_us = {name: [trial[1] for trial in found[name]] for name in NAMES}
    head(f"IPv{ipver}, {carrier}", "query/s", "ours / it", "client, us a query", "ours / it", "foreign")
    for name in NAMES:
        row(
            name,
            spread(rates[name], 0),
            spread(paired(rates["ours"], rates[name]), 2),
            spread(cpu_us[name], 2),
            spread(paired(cpu_us["ours"], cpu_us[name]), 2),
            spread([trial[-1] for trial in found[name]], 2),
        )
    where = f"IPv{ipver}, {carrier}: ours / dnsperf"
    return (
        Goal(f"{where}, rate", paired(rates["ours"], rates["dnsperf"]), LEAST, at_least=True),
        Goal(f"{where}, processor time", paired(cpu_us["ours"], cpu_us["dnsperf"]), MOST),
    )


def main() -> None:
    """Compare the tools over both IP versions and carriers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--server", choices=["bind", "nameserver"], default="bind")
    asked = parser.parse_args()
    enter()
    assert have("dnsperf") == ["dnsperf"], "dnsperf is not installed (Debian: apt-get install dnsperf)"
    machine("dnsperf")
    print(f"{asked.rounds} rounds of {asked.seconds:g} s, server {asked.server} {SERVERS[asked.server].version()}")
    with arena() as net, serving(net, asked.server) as queries, contextlib.ExitStack() as stack:
        bench = Bench(net, _end(stack, net.far, "near"), queries, asked.seconds)
        cells: Sequence[tuple[int, str]] = [(ipver, carrier) for carrier in ("udp", "tcp") for ipver in (4, 6)]
        goals = [goal for cell in cells for goal in compare(bench, *cell, asked.rounds)]
    show(goals)


if __name__ == "__main__":
    main()
