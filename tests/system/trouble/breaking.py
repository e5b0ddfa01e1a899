"""How things are broken on a testbed of the farm, and mended again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest_ipperf
from tests.support.hosts.machines import keys, said, sshd_program
from tests.support.hosts.ssh_hosts import Farm, FarmHost
from tests.system.trouble.hours import CLOCK_BY_HOURS
from tests.system.trouble.struck import Bed, Inner, agents, every, listeners, sessions

KILL, STOP, CONTINUE = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
HONEST = "server = Nameserver()\n"
LIES = """
import os

_honest = reply


def reply(query, known, **_):
    if not os.path.exists("/run/lies"):
        return _honest(query, known)
    with open("/run/lies") as lies:
        there = lies.read().split()
    return _honest(query, answers({"mail.ipperf.test": there, "www.ipperf.test": there}))


server = Nameserver()
"""
"""A name server that lies where its host's `/run/lies` says so, which is each host's own."""
PACKAGE = Path(pytest_ipperf.__file__).parent
PORTS = range(21000, 21010)

How = Callable[[Inner, Bed, str], None]
Mend = Callable[[], object]
_GONE_S = 200.0
_OLD = """#!/bin/sh
exec {python} -c 'import sys; sys.version_info = (3, 9, 2, "final", 0); sys.version = "3.9.2 (pretended)"
exec(sys.argv[sys.argv.index("-c", 1) + 1])' "$@"
"""
_LISTEN = """
import socket, sys
held = []
for family, address in ((socket.AF_INET, sys.argv[1]), (socket.AF_INET6, sys.argv[2])):
    for port in sys.argv[3:]:
        held.append(socket.create_server((address, int(port)), family=family))
print("held", flush=True)
sys.stdin.read()
"""
_LEASE = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from pytest_ipperf.agent.host_state.lease import Lease
lease = Lease("another\\nme@desk: pytest -m smtp")
assert lease.acquire(0) == ""
print("held", flush=True)
while not os.path.exists("/run/let-go"):
    time.sleep(0.02)
"""

# --- in the midst of a run --------------------------------------------------------------------------------------------


def struck(find: Callable[[Inner, Bed], list[int]], blow: signal.Signals, after: signal.Signals | None = None) -> How:
    """In the midst of the second run a signal to what `find` finds, and perhaps another one when that is reported."""

    def how(inner: Inner, bed: Bed, cell: str) -> None:
        inner.wait(cell, "run")
        pids = find(inner, bed)
        assert pids, f"{bed.name}: nothing to strike"
        inner.begins(cell)
        _signal(pids, blow)
        if after:
            inner.wait(cell, "broken")
            _signal(pids, after)

    return how


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def agent(role: str) -> Callable[[Inner, Bed], list[int]]:
    """The agent."""
    return lambda _, bed: agents(bed.host(role))


def ssh(role: str) -> Callable[[Inner, Bed], list[int]]:
    """The ssh that leads to it."""
    return lambda inner, bed: inner.controllers(rf"^ssh .* {bed.host(role).name} ")


def session_of(role: str) -> Callable[[Inner, Bed], list[int]]:
    """The sshd that leads to it, not the one that listens."""
    return lambda _, bed: sessions(bed.host(role))


def server(_: Inner, bed: Bed) -> list[int]:
    """Apache, or the embedded server in its place."""
    return every(bed.server.pid, r"^\S*apache2 |^\S*python\S* .*-m pytest_ipperf\.servers\.aiohttp ")


def worker(inner: Inner, bed: Bed) -> list[int]:
    """The worker of xdist that measures on this testbed, which has started the ssh to its hosts."""
    (pid,) = inner.controllers(rf"^ssh .* {bed.client.name} ")
    return [int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])]


def worker_stopped(inner: Inner, bed: Bed, cell: str) -> None:
    """It goes on when the watchdogs of its agents have ended them."""
    inner.wait(cell, "run")
    pids = worker(inner, bed)
    _signal(pids, STOP)
    _wait_for_agents(bed.client, 0)
    _wait_for_agents(bed.server, 0)
    inner.begins(cell)
    _signal(pids, CONTINUE)


def cut(role: str, device: str) -> How:
    """Until that has been reported."""

    def how(inner: Inner, bed: Bed, cell: str) -> None:
        inner.wait(cell, "run")
        mend = _cut(bed.host(role), getattr(bed.host(role), device))
        inner.begins(cell)
        inner.wait(cell, "broken")
        mend()

    return how


def _cut(host: FarmHost, device: str) -> Mend:
    # The kernel takes the IPv6 addresses of a device that is down, and its own manager would bring them back.
    keep = f"echo 1 > /proc/sys/net/ipv6/conf/{device}/keep_addr_on_down"
    host.run("sh", "-c", f"{keep}; ip link set {device} down")
    return lambda: host.run("ip", "link", "set", device, "up")


# --- from the start ---------------------------------------------------------------------------------------------------


def mute_listener(_: Farm, bed: Bed) -> Mend:
    """The sshd of the client's host that listens is stopped."""
    pids = listeners(bed.client)
    _signal(pids, STOP)
    return lambda: _signal(pids, CONTINUE)


def no_listener(farm: Farm, bed: Bed) -> Mend:
    """It is gone."""
    _signal(listeners(bed.client), KILL)
    return lambda: _listen(farm, bed.client)


def _listen(farm: Farm, host: FarmHost) -> None:
    folder = farm.folder / host.name
    host.run(sshd_program(), "-E", str(folder / "sshd.log"), "-f", str(folder / "sshd_config"))
    end = time.monotonic() + _GONE_S
    while not listeners(host):  # it goes to the background before it is called what it is known by
        assert time.monotonic() < end, f"{host.name}: no sshd listens"
        time.sleep(0.02)


def cut_before(_: Farm, bed: Bed) -> Mend:
    """The control link of the client's host is down."""
    return _cut(bed.client, bed.client.control_device)


def no_key(_: Farm, bed: Bed) -> Mend:
    """The client's host lets in another key than ours."""
    return _replaced(bed.client.home / ".ssh" / "authorized_keys", keys("user nobody")[1])


def unknown_host(farm: Farm, bed: Bed) -> Mend:
    """The user has never met the client's host."""
    return _replaced(farm.folder / "controller" / "keys" / f"known_{bed.client.name}", "")


def other_key(farm: Farm, bed: Bed) -> Mend:
    """It is another one than the user knows."""
    known = f"{bed.client.name} {keys('host nobody')[1]}"
    return _replaced(farm.folder / "controller" / "keys" / f"known_{bed.client.name}", known)


def _replaced(path: Path, text: str) -> Mend:
    before = path.read_text()
    path.write_text(text)
    return lambda: path.write_text(before)


def _wait_for_agents(host: FarmHost, number: int) -> None:
    """Until no more are there; those of the workload before end when it has been reported."""
    end = time.monotonic() + _GONE_S
    while len(agents(host)) > number:
        assert time.monotonic() < end, f"{host.name}: its agents stay"
        time.sleep(0.02)


def python(path: str) -> Callable[[Farm, Bed], Mend]:
    """The client's `python` is that, or for `old` one that says that it is old; there is none where that is empty."""

    def before(_: Farm, bed: Bed) -> Mend:
        named = Path(bed.client.python)
        real, old = named.readlink(), named.with_name("old")
        if path == "old":
            old.write_text(_OLD.format(python=real))
            old.chmod(0o755)
        named.unlink()
        if path:
            named.symlink_to(path)

        def mend() -> None:
            named.unlink(missing_ok=True)
            named.symlink_to(real)

        return mend

    return before


def all_ports_taken(_: Farm, bed: Bed) -> Mend:
    """Somebody listens on each of the server's `ports`."""
    return _held(bed.server, _LISTEN, bed.server.ipv4, bed.server.ipv6, *map(str, PORTS))


def some_ports_taken(_: Farm, bed: Bed) -> Mend:
    """On every second one."""
    return _held(bed.server, _LISTEN, bed.server.ipv4, bed.server.ipv6, *map(str, PORTS[::2]))


def _held(host: FarmHost, code: str, *arguments: str) -> Mend:
    """A process of the host that holds something until it is mended."""
    process = subprocess.Popen(
        [*host.entry, host.python, "-I", "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def mend() -> None:
        process.communicate()

    assert process.stdout
    if process.stdout.readline() != "held\n":
        mend()
        raise AssertionError(f"{host.name}: cannot hold {' '.join(arguments)}")
    return mend


def leased(farm: Farm, bed: Bed) -> Mend:
    """Another job holds the client's host."""
    _wait_for_agents(bed.client, 0)
    # A copy, as a host has a /tmp of its own, and the package may be in ours.
    folder, half = farm.folder / bed.client.name, shutil.ignore_patterns("*.pyc.*")
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=half, dirs_exist_ok=True)
    mend = _held(bed.client, _LEASE, str(folder))

    def mended() -> None:
        _let_go(bed.client).touch()
        mend()
        _let_go(bed.client).unlink()

    return mended


def _run_of(pid: int) -> Path:
    """The folder `/run` of the machine with that first process."""
    return Path("/proc", str(pid), "root", "run")


def _let_go(host: FarmHost) -> Path:
    return _run_of(host.pid) / "let-go"


def released(inner: Inner, bed: Bed, _: str) -> None:
    """When the session has said for whom it waits."""
    inner.wait_for(lambda: f"waiting for host {bed.client.name}" in inner.text, f"waiting for {bed.client.name}")
    _let_go(bed.client).touch()


def no_keeper(_: Farm, bed: Bed) -> Mend:
    """The agent is killed that keeps what the servers hold, the only one on their host between two workloads."""
    _wait_for_agents(bed.server, 1)
    _signal(agents(bed.server), KILL)
    return lambda: None


def disk_full(_: Farm, bed: Bed) -> Mend:
    """On the server's host, of which the agent's folder is on a tmpfs of a page."""
    tmp = str(bed.server.tmp)
    fill = 'mount -t tmpfs -o size=8k full "$0" && head -c 1M /dev/zero > "$0/full" 2>/dev/null || true'
    bed.server.run("sh", "-c", fill, tmp)
    return lambda: bed.server.run("umount", tmp)


def lied_to(_: Farm, bed: Bed) -> Mend:
    """The name server tells the client's own addresses."""
    lies = _run_of(bed.server.pid) / "lies"
    lies.write_text(f"{bed.client.ipv4} {bed.client.ipv6}")
    return lies.unlink


# --- on the controller ------------------------------------------------------------------------------------------------

CLOCK = CLOCK_BY_HOURS.format(sign="/run/hours")
"""At the end of the package's first file: whatever asks for the time of day gets what its machine makes of it."""


def main_of(inner: Inner) -> int:
    """The process of pytest itself."""
    return inner.controllers(r"^\S*python\S* -m pytest ")[0]


def go_on(inner: Inner) -> None:
    """What was stopped; the command that has entered the controller has stopped itself with it."""
    for pid in (main_of(inner), inner.process.pid):
        os.kill(pid, CONTINUE)


def pages(inner: Inner, name: str, size: str) -> None:
    """A disk of that size on the controller, in the session's folder."""
    (inner.folder / name).mkdir()
    said([*inner.farm.entry, "mount", "-t", "tmpfs", "-o", f"size={size}", "pages", str(inner.folder / name)])


def set_clock(pid: int, hours: int) -> Mend:
    """Of the machine with that first process."""
    sign = _run_of(pid) / "hours"
    sign.write_text(str(hours))
    return sign.unlink
