"""What the lean client costs beside C tools: processor time for each connection, against the null server.

    python benchmarks/client_cost.py [--rounds 9] [--connections 100,1000]

Everything is equal: IPv4 on loopback, no look-up, a connection of its own for each transaction, closed when that has
ended, N of them at once; the server on one processor and the clients on another. In each round every client runs once,
in random order; ratios are taken within a round, and their median is printed. Clients that are not installed are left
out (Debian: wrk, apache2-utils, postfix). `busy` counts user and kernel time; the lean client's own is taken around
its run, without the start of the interpreter, the others' is that of the whole process.
"""

from __future__ import annotations

import argparse
import json
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
from dataclasses import asdict
from pathlib import Path

from pytest_ipperf.agent.daemon import Daemon, free_port
from pytest_ipperf.agent.load import LoadOrder
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site

HOST = "127.0.0.1"
TRANSACTIONS = 6000
PAYLOAD_BYTES = {"http": 10_240, "smtp": 1024}
GOALS = {"wrk": 1.15, "ab": 1.0, "smtp-source": 0.75}
SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
LEAN = """
import json, sys
from pytest_ipperf.agent.load import LoadOrder, load
order = LoadOrder(**json.loads(sys.argv[1]))
load(order)  # as in an epoch: a warm-up first
told = load(order)
assert not told["failed"], told["failed"]
print(told["cpu_s"] / told["attempted"])
"""


def busy_s(argv: Sequence[str], cpu: int) -> tuple[float, str]:
    """Processor time of a command that is bound to one processor, and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["taskset", "--cpu-list", str(cpu), *argv],
        capture_output=True, text=True, check=True, timeout=120, env={**os.environ, "PATH": SEARCH},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout + done.stderr


def lean(protocol: str, connections: int, port: int, cpu: int) -> float:
    """Seconds for a connection, as every client here."""
    order = LoadOrder(
        protocol=protocol, client="lean", payload_bytes=PAYLOAD_BYTES[protocol], connections=connections,
        bursts=TRANSACTIONS // connections, ipver=4, resolver="", resolver_port=0, name=HOST, port=port, source="",
        deadline_s=30, ident=0, hold=False,
    )  # fmt: skip
    return float(busy_s([sys.executable, "-c", LEAN, json.dumps(asdict(order))], cpu)[1])


def ab(_: str, connections: int, port: int, cpu: int) -> float:
    """ApacheBench, which opens a connection for each request."""
    url = f"http://{HOST}:{port}/index.html"
    busy, said = busy_s(["ab", "-q", "-n", str(TRANSACTIONS), "-c", str(connections), url], cpu)
    assert re.search(r"Failed requests: +0\n", said), said
    return busy / TRANSACTIONS


def wrk(_: str, connections: int, port: int, cpu: int) -> float:
    """wrk, which does so when asked to close."""
    url = f"http://{HOST}:{port}/index.html"
    busy, said = busy_s(["wrk", "-t1", f"-c{connections}", "-d1s", "-H", "Connection: close", url], cpu)
    found = re.search(r"(\d+) requests in", said)
    assert found, said
    assert "Socket errors" not in said, said
    return busy / int(found[1])


def smtp_source(_: str, connections: int, port: int, cpu: int) -> float:
    """Postfix's own generator; one message for each session."""
    size = str(PAYLOAD_BYTES["smtp"])
    argv = ["smtp-source", "-s", str(connections), "-m", str(TRANSACTIONS), "-l", size, f"{HOST}:{port}"]
    return busy_s(argv, cpu)[0] / TRANSACTIONS


CLIENTS: dict[str, dict[str, Callable[[str, int, int, int], float]]] = {
    "http": {"lean": lean, "wrk": wrk, "ab": ab},
    "smtp": {"lean": lean, "smtp-source": smtp_source},
}


def compare(protocol: str, connections: int, rounds: int, *, port: int, cpu: int) -> None:
    """All clients of a protocol, round by round, and what they cost."""
    clients = {
        name: run for name, run in CLIENTS[protocol].items() if name == "lean" or shutil.which(name, path=SEARCH)
    }
    costs: dict[str, list[float]] = {name: [] for name in clients}
    rng = random.Random(f"{protocol}/{connections}")
    for _ in range(rounds):
        for name in rng.sample(list(clients), len(clients)):
            costs[name].append(clients[name](protocol, connections, port, cpu))
    for name, each in costs.items():
        ratios = [own / other for own, other in zip(costs["lean"], each, strict=True)]
        goal = f"  goal {GOALS[name]:.2f}" if name in GOALS else ""
        print(
            f"{protocol:5} N={connections:<5} {name:12} {1e6 * statistics.median(each):6.1f} us for a connection"
            f"   lean/{name} {statistics.median(ratios):.2f} [{min(ratios):.2f}..{max(ratios):.2f}]{goal}",
            flush=True,
        )


def main() -> None:
    """Measures all clients that there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--connections", default="100,1000")
    parser.add_argument("--protocol", default=",".join(CLIENTS))
    asked = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[0]})  # which the server inherits
    for protocol in asked.protocol.split(","):
        with tempfile.TemporaryDirectory() as folder:
            content = PROTOCOLS[protocol].content(PAYLOAD_BYTES[protocol])
            port = free_port([HOST], 20000, 29999, random.Random())
            site = Site(str(Path(folder, "null")), (HOST,), port, 1000, script=PROTOCOLS[protocol].script(content))
            server = Daemon(SERVERS["null"], site)
            server.start()
            try:
                for connections in map(int, asked.connections.split(",")):
                    compare(protocol, connections, asked.rounds, port=port, cpu=cpus[-1])
            finally:
                server.stop()


if __name__ == "__main__":
    main()
