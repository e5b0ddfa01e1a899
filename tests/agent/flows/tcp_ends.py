"""Runs of TCP for the tests of its engine, between two ends in one process. Runs in a network namespace."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import struct
import subprocess
import threading
from array import array
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.flows.engines.tcp import engine
from pytest_ipperf.agent.flows.spec import FarListening, FlowSpec
from pytest_ipperf.agent.flows.tcp import receiver, sender
from pytest_ipperf.agent.kernel.interface_bytes import interface_bytes
from pytest_ipperf.core.portable.errors import LabError
from tests.support.servers.tcp import StreamServer

HELLO_BYTES = 12


def spec(**changes):
    """A short run on the loopback device; the names below are its factors."""
    names = {"window": "auto", "direction": "up", "congestion": "auto", "sending": "write", "receiving": "read"}
    factors = {name: changes.pop(name, level) for name, level in names.items()}
    plain: dict[str, Any] = {
        "engine": "tcp", "ipver": 4, "source": "", "address": "127.0.0.1", "ports": (20000, 20999), "connections": 1,
        "payload_bytes": 131072, "warmup_s": 0.1, "run_s": 0.3, "deadline_s": 10.0, "ident": 2**63 + 1,
    }  # fmt: skip
    return FlowSpec(**plain | {"factors": factors} | changes)


def run(asked, entered=contextlib.nullcontext):
    """Return the reports of both ends; the far one begins in the context of `entered`."""
    with entered():
        far = engine.far(asked)
    with contextlib.closing(far):
        near = engine.near(dataclasses.replace(asked, far=far.listening), lambda: None)
        return near, far.finish(near)


def facts(near, far):
    return near.facts | far.facts


def rows(near, far):
    """Return the instants of each stream, with the bytes received until then."""
    found: dict[int, list[tuple[float, float]]] = {}
    report = array("d", near.samples + far.samples)
    for stream, at_s, count in zip(report[::3], report[1::3], report[2::3], strict=True):
        found.setdefault(int(stream), []).append((at_s, count))
    return found


def unaccounted(asked, near, far):
    """Return the bytes that the sender's kernel says it has sent once, less those that the receiver has read."""
    detail = near.detail | far.detail
    streams = detail["sender"]["tcp_info"]
    hello = HELLO_BYTES * asked.connections * (asked.factors["direction"] == "up")
    sent = sum(each["bytes_sent"] - each["bytes_retrans"] for each in streams)
    return sent - hello - sum(detail["receiver"]["received_bytes"])


def wait_for_the_rest():
    """Let the data left at the end of a run arrive, however busy the machine is."""
    for end in (receiver, sender):
        vars(end)["DRAIN_S"] = 30.0


def once_moved(size, act):
    """Return a sign of life that acts once so many bytes, more than buffers hold, have passed the loopback device."""
    before, acted = interface_bytes("lo").received, list[bool]()

    def alive():
        if not acted and interface_bytes("lo").received - before > size:
            acted.append(True)
            act()

    return alive


def refusal(asked, far=None, port=0, alive=lambda: None):
    """Return the message with which the near end of a run fails."""
    try:
        engine.near(dataclasses.replace(asked, far=far or FarListening(port=port)), alive)
    except LabError as error:
        return str(error)
    return "nothing"


def fake(said):
    """Return a far end that accepts streams, sends something and does nothing more."""
    return StreamServer("127.0.0.1", lambda conn, _: conn.sendall(said))


def left():
    """Return the number of threads and descriptors of this process."""
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


class Shaped:
    """A veth pair with a token bucket of a rate at both ends; `entered` is a context in the other end's namespace."""

    def __init__(self, rate_mbit):
        self._held = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1)
        assert self._held.stdout is not None
        self._held.stdout.readline()
        inside = f"nsenter --net=/proc/{self._held.pid}/ns/net "
        link = "02:00:00:00:00:0"
        command(f"ip link add near address {link}1 type veth peer name far address {link}2 netns {self._held.pid}")
        for enter, device, number, other in (("", "near", 1, 2), (inside, "far", 2, 1)):
            command(f"{enter}ip addr add 198.18.0.{number}/24 dev {device}")
            command(f"{enter}ip addr add 2001:2::{number}/64 dev {device} nodad")
            command(f"{enter}ip link set {device} gso_max_segs 1 up")
            # IPv6's first neighbour solicitation may be too early, and the next comes a second later.
            command(f"{enter}ip neigh add 2001:2::{other} lladdr {link}{other} dev {device}")
            command(
                f"{enter}tc qdisc replace dev {device} root stab overhead 24 linklayer ethernet"
                f" tbf rate {rate_mbit}mbit burst 16kb latency 20ms"
            )
        self._here, self._there = (os.open(f"/proc/{pid}/ns/net", 0) for pid in ("self", self._held.pid))

    @contextlib.contextmanager
    def entered(self):
        enter = ctypes.CDLL(None, use_errno=True).setns  # os.setns came with Python 3.12
        assert enter(self._there, 0) == 0
        try:
            yield
        finally:
            assert enter(self._here, 0) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._held.communicate()
        os.close(self._here)
        os.close(self._there)


def command(words):
    subprocess.run(words.split(), check=True, capture_output=True)


def number(name):
    return int(Path("/proc/sys", *name.split(".")).read_text())


def hello(ident, place):
    return struct.pack("!QI", ident, place)
