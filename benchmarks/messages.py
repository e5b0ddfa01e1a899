"""What messages between controller and agents cost: one call, and all of a run beside its load.

    python benchmarks/messages.py [--rounds 5] [--before ../other-checkout]

In each round both checkouts take their turn, in random order, in the lab (namespaces and pipes) and over an sshd of
this program's own on 127.0.0.1. A call asks an agent who it is. A run is one connection of `smtp` to the embedded
server; beside the load itself it takes messages, and what hosts do for them. `processor` is the controller's time.
Requests are counted of all hosts together. Without `--before` only this checkout is measured.

It needs root, or a user who may have user namespaces, and sshd (Debian: openssh-server, openssh-client).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.hosts import OURS, far
from benchmarks.rounds import head, interleaved, paired, row, spread

ROOT = Path(__file__).parents[1]
CALLS, RUNS = 200, 20
# For this checkout, and for those before RPC methods were typed.
WORKER = """
import json, sys, time
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.epoch.build import build_testbed
from pytest_ipperf.lab.epoch.live_testbed import LiveTestbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.lab.runs.flows import Duration
from pytest_ipperf.protocols import PROTOCOLS

where, config, python, calls, runs = sys.argv[1:]
if where == "lab":
    testbed = BUILTIN["lab"]
else:
    settings = {"ssh": "far", "python": python, "ssh_config": config}
    hosts = [Host(name=name, way="ssh", ipv4="127.0.0.1", settings=settings) for name in ("alpha", "beta")]
    testbed = Testbed(name="far", client=hosts[0], server=hosts[1])
sent, request = [], AgentClient.request

def counted(self, *arguments, **settings):
    sent.append(self)
    request(self, *arguments, **settings)

AgentClient.request = counted

def work(protocol):
    levels = tuple(each.level(each.levels[0]) for each in getattr(PROTOCOLS[protocol], "factors", ()))
    return Workload(
        testbed=testbed.name, protocol=protocol, client="lean", connections=1, payload_bytes=1000, levels=levels
    )

def run(protocol, capture=0):
    duration = Duration(warmup_s=0.0, run_s=0.1)
    return live.run(
        Arm(4, "native"), service, work(protocol), bursts=1, deadline_s=5.0, duration=duration, capture=capture
    )

def requests(protocol, capture=0):
    run(protocol, capture)
    sent.clear()
    run(protocol, capture)
    return len(sent)

with build_testbed(testbed) as made:
    live, agent, found = LiveTestbed(testbed, made.agents, made.tunnels), made.agents["client"], {}
    hello = agent.hello if hasattr(agent, "hello") else lambda: agent.call("hello")
    for protocol in ("udp", "http", "smtp"):
        service = live.serve(work(protocol), "embedded")
        found[protocol] = requests(protocol)
        if protocol == "http":
            found["http, captured"] = requests(protocol, 5)
    print(json.dumps(found), flush=True)
    for line in sys.stdin:
        call_s, beside_s = [], []
        cpu_s = time.process_time()
        for _ in range(int(calls)):
            began = time.perf_counter()
            hello()
            call_s.append(time.perf_counter() - began)
        call_cpu_s = (time.process_time() - cpu_s) / int(calls)
        cpu_s = time.process_time()
        for _ in range(int(runs)):
            began = time.perf_counter()
            result = run("smtp")
            beside_s.append(time.perf_counter() - began - result.proof["wall_s"])
        run_cpu_s = (time.process_time() - cpu_s) / int(runs)
        print(json.dumps([call_s, call_cpu_s, beside_s, run_cpu_s]), flush=True)
"""
FIGURES = ("call, ms", "call, processor, ms", "run beside its load, ms", "run, processor, ms")


class Worker:
    """A process with agents of its own, of one checkout."""

    def __init__(self, checkout: Path, where: str, config: str) -> None:
        argv = [sys.executable, "-c", WORKER, where, config, OURS, str(CALLS), str(RUNS)]
        env = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"}
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.requests: dict[str, int] = json.loads(self._heard())

    def measure(self) -> list[float]:
        """One round's `FIGURES`."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        call_s, call_cpu_s, beside_s, run_cpu_s = json.loads(self._heard())
        times = (statistics.median(call_s), call_cpu_s, statistics.median(beside_s), run_cpu_s)
        return [1000 * each for each in times]

    def _heard(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "a worker ended before it answered"
        return line

    def close(self) -> None:
        """End it; its agents end with it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def workers(checkouts: dict[str, Path]) -> Iterator[dict[tuple[str, str], Worker]]:
    """One worker for each checkout and place, all of them ready."""
    with far() as there, contextlib.ExitStack() as stack:
        found = {}
        for where in ("lab", "ssh"):
            for name, checkout in checkouts.items():
                found[where, name] = Worker(checkout, where, str(there.config))
                stack.callback(found[where, name].close)
        yield found


def show(found: dict[tuple[str, str], list[list[float]]], names: list[str], where: str) -> None:
    """The table of one place."""
    head(where, *names, *(["after / before"] if len(names) > 1 else []))
    for at, figure in enumerate(FIGURES):
        columns = [[each[at] for each in found[where, name]] for name in names]
        ratio = [spread(paired(columns[-1], columns[0]), 2)] if len(names) > 1 else []
        row(figure, *(spread(each, 3) for each in columns), *ratio)


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    asked: Any = parser.parse_args()
    checkouts = ({"before": asked.before.resolve()} if asked.before else {}) | {"after": ROOT}
    found: dict[tuple[str, str], list[list[float]]] = {}
    with workers(checkouts) as ready:
        for where in ("lab", "ssh"):
            for name in interleaved(list(checkouts), asked.rounds, where):
                found.setdefault((where, name), []).append(ready[where, name].measure())
            show(found, list(checkouts), where)
            head("requests of a run", *checkouts)
            for kind in ready[where, "after"].requests:
                row(f"{where}, {kind}", *(str(ready[where, name].requests[kind]) for name in checkouts))


if __name__ == "__main__":
    main()
