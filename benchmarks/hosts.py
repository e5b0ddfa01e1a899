"""The cost of a host behind ssh: the time to set it up, cold and warm, and the time of one call.

    python benchmarks/hosts.py [--rounds 9] [--calls 500] [--python /usr/bin/python3]

The script starts an sshd on 127.0.0.1, with its own keys. In each round every step is timed once, in random order: the
start of an agent until it answers, on a host that keeps nothing, has kept nothing yet (cold) or has (warm), with this
Python and with another one; then the start of the embedded server aiohttp until it is ready, with its packages; `ssh
host true`, with a connection of its own and through a ControlMaster. Calls and echoes of bare execnet alternate over
two connections. Ratios are taken within a round. `foreign` is the number of processors that other programs used.

It needs sshd and ssh (Debian: openssh-server, openssh-client), and a package index for wheels of the other Python.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import execnet

from benchmarks.rounds import head, interleaved, measured, paired, row, spread
from pytest_ipperf.agent.rpc.messages import ServeRequest
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.deploy.install import install_packages
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.servers import SERVERS

SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
SetEnv XDG_CACHE_HOME={folder}/cache
"""
CLIENT = """
Host far shared
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/user
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {folder}/known
    GlobalKnownHostsFile /dev/null
Host shared
    ControlMaster auto
    ControlPath {folder}/%C
    ControlPersist 60
Host far
    ControlPath none
"""
ECHO = "while True: channel.send(channel.receive())"
SERVED = ServeRequest(
    addresses=["127.0.0.1"], ports=(20000, 29999), connections=1, protocol="http", payload_bytes=1000,
    state=ServerState(), data="", zone={},
)  # fmt: skip
# Without the packages of a virtual environment.
OURS = str(Path(sys.executable).resolve())
BLOCK = 50


@dataclass(frozen=True)
class Far:
    """The host, and the folder of its sshd's files."""

    folder: Path
    config: Path

    def host(self, python: str, name: str = "far") -> Host:
        """Return the host as from an inventory; `shared` goes through a ControlMaster."""
        settings = {"ssh": name, "python": python, "ssh_config": str(self.config)}
        return Host(name=name, way="ssh", ipv4="127.0.0.1", settings=settings)

    def forget(self) -> None:
        """Empty the host's cache."""
        shutil.rmtree(self.folder / "cache", ignore_errors=True)

    def true(self, name: str) -> float:
        """Return the seconds of the smallest possible ssh command."""
        return timed(lambda: subprocess.run(["ssh", "-F", self.config, name, "true"], check=True))


@contextlib.contextmanager
def far() -> Iterator[Far]:
    """Start an sshd, and yield the host behind it."""
    sshd = shutil.which("sshd", path=SEARCH)
    if not sshd or not shutil.which("ssh"):
        sys.exit("no sshd or no ssh here (Debian: apt-get install openssh-server openssh-client)")
    with tempfile.TemporaryDirectory(prefix="hosts-") as made, socket.create_server(("127.0.0.1", 0)) as taken:
        folder, port = Path(made), taken.getsockname()[1]
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
        (folder / "sshd_config").write_text(SERVER.format(port=port, folder=folder))
        (folder / "ssh_config").write_text(CLIENT.format(port=port, folder=folder, user=getpass.getuser()))
        taken.close()
        with subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL) as process:
            try:
                _await(port)
                yield Far(folder, folder / "ssh_config")
            finally:
                subprocess.run(["ssh", "-F", folder / "ssh_config", "-O", "exit", "shared"], check=False)
                process.terminate()


def _await(port: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    sys.exit("sshd does not listen; as root it wants a folder /run/sshd")


def timed(call: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def set_up(host: Host, *, keeps: bool = True) -> float:
    """Return the seconds until the host's agent answers."""
    agents: list[AgentClient] = []
    took_s = timed(lambda: agents.append(AgentClient(host, keeps=keeps)))
    agents[0].close()
    return took_s


def serving(host: Host, *, keeps: bool = True) -> float:
    """Return the seconds until the host's aiohttp server is ready."""
    with AgentClient(host, keeps=keeps) as agent:

        def serve() -> None:
            install_packages(agent, SERVERS["aiohttp"].packages)
            agent.serve({"aiohttp": SERVED})

        return timed(serve)


class Bench:
    """The steps of each round by name; the others are compared with the first."""

    def __init__(self, there: Far) -> None:
        self._there = there
        self.tools: dict[str, Callable[[], Sequence[float]]] = {}
        self._add("`ssh host true`", lambda: there.true("far"))
        self._add("the same, ControlMaster", lambda: self._warm(lambda: there.true("shared")))

    def add(self, what: str, python: str, call: Callable[..., float]) -> None:
        """Add the step for a Python three times: on a host that keeps nothing, is cold, and is warm."""
        host = self._there.host(python)
        self._add(f"{what}, keeps nothing", lambda: call(host, keeps=False))
        self._add(f"{what}, cold", lambda: self._cold(lambda: call(host)))
        self._add(f"{what}, warm", lambda: self._warm(lambda: call(host)))

    def add_shared(self, what: str, python: str) -> None:
        """Add the step over an existing connection."""
        host = self._there.host(python, "shared")
        self._add(f"{what}, warm, ControlMaster", lambda: self._warm(lambda: set_up(host)))

    def _add(self, name: str, call: Callable[[], float]) -> None:
        self.tools[name] = lambda: [call()]

    def _cold(self, call: Callable[[], float]) -> float:
        self._there.forget()
        return call()

    def _warm(self, call: Callable[[], float]) -> float:
        call()
        return call()


def call_times(there: Far, python: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each call, and of each echo of bare execnet, in turns of `BLOCK`."""
    found: dict[str, list[float]] = {"call": [], "echo of bare execnet": []}
    group = execnet.Group()
    gateway = group.makegateway(f"ssh=-F {there.config} far//python={python}")
    channel = gateway.remote_exec(ECHO)

    def echo() -> None:
        channel.send(("hello", ()))
        channel.receive()

    with AgentClient(there.host(python)) as agent:
        calls: dict[str, Callable[[], object]] = {"call": agent.hello, "echo of bare execnet": echo}
        for call in calls.values():
            call()
        for name in interleaved(list(calls), rounds, "calls"):
            found[name] += [timed(calls[name]) for _ in range(BLOCK)]
    group.terminate(timeout=5)
    return found


def show_set_up(found: dict[str, list[tuple[float, ...]]]) -> None:
    """Print the first table."""
    first = next(iter(found))
    head("until", "seconds", f"/ {first}", "foreign")
    for name, trials in found.items():
        took, foreign = ([trial[at] for trial in trials] for at in (0, 1))
        ratio = spread(paired(took, [trial[0] for trial in found[first]]), 2)
        row(name, spread(took, 3), ratio, f"{statistics.median(foreign):.2f}")


def show_calls(found: dict[str, list[float]]) -> None:
    """Print the second table."""
    head("one", "median, ms", "99 %", "median / echo", "99 % / echo")
    quantiles = {name: statistics.quantiles(values, n=100) for name, values in found.items()}
    base = quantiles["echo of bare execnet"]
    for name, each in quantiles.items():
        row(name, *(f"{1e3 * each[at]:.3f}" for at in (49, 98)), *(f"{each[at] / base[at]:.2f}" for at in (49, 98)))


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--python", default="/usr/bin/python3", help="another Python, 3.10 or later, as on a host")
    asked = parser.parse_args()
    with far() as there:
        bench = Bench(there)
        for name, python in (("our Python", OURS), ("another", asked.python)):
            serving(there.host(python))  # packages are packed and downloaded at most once a session
            bench.add(f"agent answers, {name}", python, set_up)
            bench.add_shared(f"agent answers, {name}", python)
            bench.add(f"then aiohttp serves, {name}", python, serving)
        show_set_up(measured(bench.tools, asked.rounds, "hosts"))
        show_calls(call_times(there, OURS, max(asked.calls // BLOCK, 1)))


if __name__ == "__main__":
    main()
