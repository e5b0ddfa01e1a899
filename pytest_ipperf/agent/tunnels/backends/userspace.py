"""Encapsulation by a Python process, for users who are root only in a namespace of their own.

The device is one end of a veth pair; at the other a forwarder reads and writes (`agent/tunnels/forwarder.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest_ipperf
from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.kernel.ethtool import set_offloads
from pytest_ipperf.agent.kernel.processes import search_path
from pytest_ipperf.agent.tunnels.backends.base import Backend
from pytest_ipperf.agent.tunnels.encapsulation import PROTOCOL
from pytest_ipperf.agent.tunnels.forwarder import UP
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import program
from pytest_ipperf.transports.base import TunnelEndpoint

_MAC = bytes.fromhex("024100000002")
_READY_S = 10.0
_STOP_S = 2.0
_START = "import sys; sys.path.insert(0, sys.argv[1]); from pytest_ipperf.agent.tunnels.forwarder import main; main()"


class Userspace(Backend):
    """Backend with a forwarder for each endpoint; those of ISATAP learn which packets belong to configured tunnels."""

    name = "userspace"
    title = "a forwarder in Python"
    rank = 2
    needs_rate = True
    handicap = "the tunnel's forwarder is a Python program, and its own time is part of the figures"

    def __init__(self) -> None:
        self._peers: list[str] = []
        self._isatap: list[subprocess.Popen[bytes]] = []

    def missing(self) -> str:
        if not program("ip"):
            return "ip is not installed (Debian: apt-get install iproute2)"
        try:
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
            socket.socket(socket.AF_INET, socket.SOCK_RAW, PROTOCOL).close()
        except OSError as error:
            return f"packet and raw sockets are refused ({error.strerror}); it works as root or in a user namespace"
        return ""

    def up(self, end: TunnelEndpoint, changes: Changes, stack: contextlib.ExitStack) -> None:
        far = f"{end.device}-f"
        add = ["ip", "link", "add", "name", end.device, "address", _MAC.hex(":"), "mtu", str(end.mtu)]
        changes.run(
            [*add, "type", "veth", "peer", "name", far, "mtu", str(end.mtu)], ["ip", "link", "del", "dev", end.device]
        )
        for device in (end.device, far):
            changes.run(
                ["ip", "link", "set", "dev", device, "arp", "off", "addrgenmode", "none", "gso_max_segs", "1"], None
            )
        # Packets that leave the device are for the forwarder alone.
        changes.write(f"/proc/sys/net/ipv6/conf/{far}/disable_ipv6", "1")
        # The forwarder has to read complete packets. Both settings disappear with the device.
        set_offloads(end.device, {"tx-checksum": False, "sg": False, "tso": False, "gso": False})
        for device in (far, end.device):
            changes.run(["ip", "link", "set", "dev", device, "up"], None)
        self._forward(end, far, stack)

    def _forward(self, end: TunnelEndpoint, far: str, stack: contextlib.ExitStack) -> None:
        popen = _started(end, far)
        stack.callback(_stop, popen)
        _wait_up(popen, end)
        kept, what = (self._isatap, popen) if end.transport == "isatap" else (self._peers, end.remote)
        kept.append(what)  # type: ignore[arg-type]
        stack.callback(kept.remove, what)  # type: ignore[arg-type]
        for each in self._isatap:
            _send_peers(each, self._peers)


def _started(end: TunnelEndpoint, far: str) -> subprocess.Popen[bytes]:
    # Code that travelled is in an open file of this process.
    code = Path(pytest_ipperf.__file__).parents[1]
    travelled = (int(code.name),) if code.parent == Path("/proc/self/fd") else ()
    argument = json.dumps([os.getpid(), asdict(end), far, _MAC.hex()])
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, str(code), "pytest-ipperf-forwarder", argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=search_path(),
            cwd="/",
            pass_fds=travelled,
            start_new_session=True,  # the controller handles a Ctrl-C at the terminal
        )
    except OSError as error:
        raise LabError(f"no forwarder could be started for {end.device}: {error}") from None


def _wait_up(popen: subprocess.Popen[bytes], end: TunnelEndpoint) -> None:
    assert popen.stdout is not None and popen.stderr is not None  # noqa: S101, PT018 - they are pipes
    if not select.select([popen.stdout], [], [], _READY_S)[0]:
        raise LabError(f"the forwarder of {end.device} was not ready after {_READY_S:g} s")
    if os.read(popen.stdout.fileno(), len(UP)) != UP:
        lines = popen.stderr.read().decode(errors="replace").strip().splitlines() or ["no message"]
        raise LabError(f"the forwarder of {end.device} did not start: {lines[-1]}")


def _send_peers(popen: subprocess.Popen[bytes], peers: list[str]) -> None:
    assert popen.stdin is not None  # noqa: S101 - it is a pipe
    with contextlib.suppress(OSError):  # it has ended, and forwards no more
        os.write(popen.stdin.fileno(), " ".join(("", *peers, "")).encode())


def _stop(popen: subprocess.Popen[bytes]) -> None:
    assert popen.stdin is not None  # noqa: S101 - it is a pipe
    popen.stdin.close()
    try:
        popen.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()
    for pipe in (popen.stdout, popen.stderr):
        if pipe is not None:
            pipe.close()


backend = Userspace()
