"""Processor time of the clients for each connection beside C tools, against the null server.

    python benchmarks/client_cost.py [--rounds 7] [--protocol http,imap] [--connections 100,1000]

Everything else is equal: IPv4 on loopback, no look-up, a connection for each transaction, closed after it (FTP: at the
end of the run), N of them at once. The server has one processor and the clients another, in a network namespace with
long queues if this machine allows one. In each round every client runs once, in random order, and ratios are taken
within a round. All figures are medians with the minimum and the maximum.

Clients that are not installed are left out (Debian: wrk, apache2-utils, nghttp2-client, postfix, dnsperf; Python:
`pip install "pytest-ipperf[library]"`). User and kernel time count: of `lean` and `library` around a run, without the
start of the interpreter, of the others of the whole process.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.codec import encoded
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.deploy.install import check_library
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site

HOST = "127.0.0.1"
PORTS = (20000, 29999)
TRANSACTIONS = 6000
STATE = ServerState(users=500, password="secret")  # noqa: S106 - of accounts that do not exist
PAYLOAD_BYTES = {"dns": 34, "ftp": 10_240, "http": 10_240, "imap": 1024, "smtp": 1024}
LEVELS = (100, 1000)
MORE = {"http": (5000,)}
GOALS = {"wrk": 1.0, "ab": 1.0, "smtp-source": 0.7}
SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
OWN_CLIENT = """
import ast, sys
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.codec import Decoder
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping
spec = Decoder().decode(LoadSpec, ast.literal_eval(sys.argv[1]), "spec")
with rx_timestamping():  # as in an agent
    load(spec)  # as in an epoch: a warm-up first
    result = load(spec)
assert not result.failed, result.failed
print(result.cpu_s / result.attempted)
"""
INSIDE = "IPPERF_CLIENT_COST_INSIDE"
PREPARE = """
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
for each in net.core.somaxconn=65535 net.ipv4.tcp_max_syn_backlog=65535 'net.ipv4.ip_local_port_range=30000 65535'; do
    sysctl -qw "$each"
done
exec "$@"
"""


@dataclass(frozen=True)
class Task:
    """What every client has to do, and on which processor."""

    protocol: str
    connections: int
    port: int
    cpu: int

    @property
    def transactions(self) -> int:
        """The number of transactions, in whole bursts, at least two."""
        return self.connections * max(2, TRANSACTIONS // self.connections)

    @property
    def url(self) -> str:
        """The URL of the page."""
        return f"http://{HOST}:{self.port}/index.html"


def busy_s(argv: Sequence[str], task: Task) -> tuple[float, str]:
    """Run a command on the task's processor; return its processor time and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["taskset", "--cpu-list", str(task.cpu), *argv],
        capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "PATH": SEARCH},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not done.returncode, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout + done.stderr


# --- clients: each gives seconds for a connection ---------------------------------------------------------------------


def own(client: str, task: Task) -> float:
    """Run one of the project's own clients."""
    spec = LoadSpec(
        protocol=task.protocol, client=client, payload_bytes=PAYLOAD_BYTES[task.protocol],
        connections=task.connections, bursts=task.transactions // task.connections, ipver=4, resolver="",
        resolver_port=0, name=HOST, port=task.port, source="", deadline_s=60, ident=0, hold=False, state=STATE,
    )  # fmt: skip
    return float(busy_s([sys.executable, "-c", OWN_CLIENT, repr(encoded(LoadSpec, spec))], task)[1])


def ab(task: Task) -> float:
    """Run ApacheBench, which opens a connection for each request."""
    busy, said = busy_s(["ab", "-q", "-n", str(task.transactions), "-c", str(task.connections), task.url], task)
    assert re.search(r"Failed requests: +0\n", said), said
    return busy / task.transactions


def wrk(task: Task) -> float:
    """Run wrk, which does the same if asked to close."""
    argv = ["wrk", "-t1", f"-c{task.connections}", "-d1s", "--timeout=30s", "-H", "Connection: close", task.url]
    busy, said = busy_s(argv, task)
    found = re.search(r"(\d+) requests in", said)
    assert found, said
    assert "Socket errors" not in said, said
    return busy / int(found[1])


def h2load(task: Task) -> float:
    """Run h2load with HTTP/1.1, which does the same."""
    argv = ["h2load", "--h1", "-t1", "-n", str(task.transactions), "-c", str(task.connections)]
    busy, said = busy_s([*argv, "-H", "Connection: close", task.url], task)
    assert f" {task.transactions} succeeded, 0 failed" in said, said
    return busy / task.transactions


def smtp_source(task: Task) -> float:
    """Run Postfix's own generator, with one message for each session."""
    size = str(PAYLOAD_BYTES["smtp"])
    argv = ["smtp-source", "-s", str(task.connections), "-m", str(task.transactions), "-l", size]
    return busy_s([*argv, f"{HOST}:{task.port}"], task)[0] / task.transactions


def dnsperf(task: Task) -> float:
    """Run dnsperf, which reuses its N sockets."""
    return _asked(task, queries=task.transactions, sockets=task.connections) / task.transactions


def dnsperf_anew(task: Task) -> float:
    """Run a dnsperf for each burst, so that each query has its own socket; subtract the cost of the starts."""
    processes = task.transactions // task.connections
    busy = sum(_asked(task, queries=task.connections, sockets=task.connections) for _ in range(processes))
    start = statistics.fmean(_asked(task, queries=1, sockets=1) for _ in range(processes))
    return (busy - processes * start) / (processes * (task.connections - 1))


def _asked(task: Task, *, queries: int, sockets: int) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".queries") as file:
        file.write(f"{application('dns').host} A\n")
        file.flush()
        argv = ["dnsperf", "-s", HOST, "-p", str(task.port), "-d", file.name, "-n", str(queries), "-T", "1"]
        busy, said = busy_s([*argv, "-c", str(sockets), "-q", str(sockets)], task)
    assert re.search(rf"Queries completed: +{queries} \(100", said), said
    return busy


Client = Callable[[Task], float]
TOOLS: dict[str, dict[str, Client]] = {
    "dns": {"dnsperf": dnsperf, "dnsperf anew": dnsperf_anew},
    "ftp": {},
    "http": {"wrk": wrk, "ab": ab, "h2load": h2load},
    "imap": {},
    "smtp": {"smtp-source": smtp_source},
}


def clients_of(protocol: str) -> dict[str, Client]:
    """Return the installed clients of a protocol, by name."""
    found: dict[str, Client] = {"lean": partial(own, "lean")}
    found |= {name: run for name, run in TOOLS[protocol].items() if shutil.which(name.split()[0], path=SEARCH)}
    try:
        check_library(application(protocol))
    except UsageError:
        return found
    library = ", ".join(re.split("[<>=]", each)[0] for each in application(protocol).packages) or "asyncio"
    return {**found, library: partial(own, "library")}


# --- the comparison ---------------------------------------------------------------------------------------------------


def compare(task: Task, rounds: int) -> None:
    """Measure all clients of a protocol, round by round, and print their costs."""
    clients = clients_of(task.protocol)
    costs: dict[str, list[float]] = {name: [] for name in clients}
    rng = random.Random(f"{task.protocol}/{task.connections}")
    for _ in range(rounds):
        for name in rng.sample(list(clients), len(clients)):
            costs[name].append(clients[name](task))
    for name, each in costs.items():
        line = f"{task.protocol:5} N={task.connections:<5} {name:13} {_spread([1e6 * cost for cost in each], 1)} us"
        if name != "lean":
            goal = f"  goal {GOALS[name]:.2f}" if name in GOALS else ""
            ratios = [lean / other for lean, other in zip(costs["lean"], each, strict=True)]
            line += f"  lean/{name} {_spread(ratios, 2)}{goal}"
        print(line, flush=True)


def _spread(values: Sequence[float], digits: int) -> str:
    texts = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return "{} [{} .. {}]".format(*texts)


def measure(protocol: str, levels: Sequence[int], rounds: int, cpus: Sequence[int]) -> None:
    """Start the null server of the protocol on the first processor, and compare the clients on the last."""
    kind = application(protocol)
    state = kind.filled(STATE, PAYLOAD_BYTES[protocol])
    with tempfile.TemporaryDirectory() as folder:
        port = free_port([HOST], *PORTS, random.Random())
        site = Site(
            str(Path(folder, kind.null)), (HOST,), port, max(levels),
            state=state, zone={kind.host: (HOST,)}, canned_replies=kind.canned_replies(state), ports=PORTS,
        )  # fmt: skip
        os.sched_setaffinity(0, {cpus[0]})  # which the server inherits
        server = ServerProcess(SERVERS[kind.null], site)
        server.start()
        try:
            for connections in levels:
                compare(Task(protocol, connections, port, cpus[-1]), rounds)
        finally:
            server.stop()


def go_inside() -> None:
    """Run this program in a network namespace and exit, unless it is in one already or none is available."""
    if INSIDE in os.environ:
        return
    for words in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]):
        if not subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
            inside = [*words, "sh", "-ec", PREPARE, "sh", sys.executable, *sys.argv]
            sys.exit(subprocess.run(inside, check=False, env={**os.environ, INSIDE: "1"}).returncode)
    print("no network namespace is available here: 5000 connections at once may exceed the queues")


def main() -> None:
    """Measure all installed clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--connections", default="", help="instead of 100 and 1000, and 5000 for http")
    parser.add_argument("--protocol", default=",".join(TOOLS))
    asked = parser.parse_args()
    go_inside()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cpus = sorted(os.sched_getaffinity(0))
    for protocol in asked.protocol.split(","):
        wanted = [int(each) for each in asked.connections.split(",") if each]
        levels = wanted or [*LEVELS, *MORE.get(protocol, ())]
        measure(protocol, levels, asked.rounds, cpus)


if __name__ == "__main__":
    main()
