"""What the tests of this room share: a lab whose path can be tampered with, and the figures for docs/truth.md."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel.processes import tree
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.epoch.live_testbed import LiveTestbed
from pytest_ipperf.lab.epoch.servers import EpochServers
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.netns.namespaces import namespaces, unusable
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import PHASES

HERE = Path(__file__).parent
LAB = BUILTIN["pair"]
STATE = ServerState(users=100, password="the-password")
_LINES = pytest.StashKey[list[str]]()


class Wire:
    """The wire between the two hosts: see `wire.py`."""

    def __init__(self, entry: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [*entry, "taskset", "--cpu-list", "0", "unshare", "--net", sys.executable, str(HERE / "wire.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.pid = self._receive()

    def _receive(self):
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def say(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hold(
        self, seconds: Mapping[str, float], port: int, marks: Mapping[str, str]
    ) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        """From now on it holds what makes these points for so long, in the protocol that is served there.

        Gives what it has held until now, by point, and how long the phases lasted, in seconds.
        """
        hold_ns = {point: round(each * 1e9) for point, each in seconds.items()}
        self.say(json.dumps({"hold_ns": hold_ns, "port": port, "marks": dict(marks)}))
        reply = self._receive()
        held, lasted = (
            {name: [each * 1e-9 for each in values] for name, values in reply[what].items()}
            for what in ("held", "lasted")
        )
        return held, lasted

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@dataclass(frozen=True)
class Bench:
    """A lab that stands, with the words that enter its hosts."""

    live: LiveTestbed
    entries: Mapping[str, Sequence[str]]
    wire: Wire | None
    services: dict[str, ServerEndpoint] = field(default_factory=dict)

    hosts = LAB.hosts

    @property
    def client(self):
        """The process that leads to the client's agent."""
        return self.live._client._process

    @property
    def server(self):
        """The process that leads to the server's agent."""
        return self.live._server._process

    def null(self, workload: Workload) -> ServerEndpoint:
        """A server that does next to nothing, beside a name server or itself one."""
        addresses = self.live._testbed.addresses(frozenset())
        serving = self.live._servers = EpochServers(self.live._server, addresses, STATE)
        name = application(workload.protocol).null
        resolver = serving._service("nameserver", workload)
        return resolver if name == resolver.name else serving._service(name, workload, resolver.port)

    def serve(self, workload: Workload, server: str) -> ServerEndpoint:
        """That server, which is started once; so the workloads of a protocol are to differ in nothing that it knows."""
        if server not in self.services:
            self.services[server] = self.live.serve(workload, server, STATE)
        return self.services[server]

    def measure(self, ipver: int, service: ServerEndpoint, workload: Workload, bursts: int) -> list[dict[str, float]]:
        """One run, in which nothing may fail: each connection's phases in seconds since its start."""
        run_result = self.live.run(Arm(ipver, "native"), service, workload, bursts=bursts, deadline_s=60)
        assert not run_result.data.failed
        assert not run_result.violations
        return [dict(zip(PHASES, row, strict=True)) for row in run_result.data.rows()]


def _inside(entry: Sequence[str], *lines: str) -> None:
    subprocess.run([*entry, "ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def _wired(testbed: Testbed, entries: Mapping[str, Sequence[str]]) -> Wire:
    """Puts a wire in the place of the link."""
    wire = Wire(entries[testbed.server.name])
    _inside(entries[testbed.client.name], "link del eth0")
    for number, host in enumerate(testbed.hosts):
        _inside(
            entries[host.name],
            f"link add eth0 type veth peer name wire{number} netns {wire.pid}",
            "link set eth0 up",
            f"addr add {host.ipv4}/24 dev eth0",
            f"addr add {host.ipv6}/64 dev eth0 nodad",
        )
    wire.say("")
    assert wire._receive() == "up"
    return wire


@contextlib.contextmanager
def built(*, wired: bool) -> Iterator[Bench]:
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    with contextlib.ExitStack() as stack:
        entries = stack.enter_context(namespaces(LAB))
        wire = _wired(LAB, entries) if wired else None
        if wire:
            stack.callback(wire.close)
        agents = {role: stack.enter_context(AgentClient(host, entries[host.name])) for role, host in LAB.roles.items()}
        for agent in agents.values():
            agent.pin(list(agent.host.cpus))
        yield Bench(LiveTestbed(LAB, agents), entries, wire)


@pytest.fixture(scope="module")
def wired() -> Iterator[Bench]:
    """A lab with the wire; before all other work of this machine, as far as this user may have that."""
    with built(wired=True) as bench:
        assert bench.wire
        for line, priority in ((bench.wire.process, 30), (bench.client, 40), (bench.server, 40)):
            _put_first(line.pid, priority)
        yield bench


@pytest.fixture(scope="module")
def plain() -> Iterator[Bench]:
    """A lab as any measurement has it; its client before all other work, as what waits for that is no error of it."""
    with built(wired=False) as bench:
        _put_first(bench.client.pid, 5)  # after the labs with a wire that other tests have meanwhile
        yield bench


def _put_first(pid: int, priority: int) -> None:
    for process in itertools.chain.from_iterable(tree(pid)):
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(priority))


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keeps a line for the end: what docs/truth.md shows."""
    return request.config.stash.setdefault(_LINES, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(_LINES, [])
    if lines:
        terminalreporter.section("what the instrument says of what is known")
    for line in lines:
        terminalreporter.write_line(line)
