"""Encapsulation by BPF programs at tc, on a carrier device and on the port of the link.

The carrier is an `ifb` device, which by itself drops all packets; routes, addresses, MTU and Packet Too Big are the
IPv6 stack's own.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from functools import cache

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.kernel.processes import search_path
from pytest_ipperf.agent.tunnels import bpf_assembler, tc_filters
from pytest_ipperf.agent.tunnels.backends.base import Backend
from pytest_ipperf.agent.tunnels.bpf_programs import MAC, decap, encap
from pytest_ipperf.agent.tunnels.encapsulation import EncapsulationRules
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import program, true_root
from pytest_ipperf.transports.base import TunnelEndpoint

_OLDEST = (6, 6)
_SIOCGIFCONF = 0x8912
_IFREQ = struct.Struct("16s4x4s16x")
_MOST_ADDRESSES = 1024


class Ebpf(Backend):
    """Backend of BPF programs, which end with this process, or with a host that is thrown away."""

    name = "ebpf"
    title = "BPF programs at tc"
    counted_as_ipv4 = False
    rank = 1

    def missing(self) -> str:
        if not true_root():
            return "only root of the machine may load BPF programs"
        release = os.uname().release
        if tuple(map(int, re.findall(r"\d+", release)[:2])) < _OLDEST:
            return f"this is Linux {release}; it works from Linux {'.'.join(map(str, _OLDEST))} on"
        for name, package in (("ip", "iproute2"), ("unshare", "util-linux")):
            if not program(name):
                return f"{name} is not installed (Debian: apt-get install {package})"
        return bpf_assembler.unusable() or _refusal()

    def up(self, end: TunnelEndpoint, changes: Changes, stack: contextlib.ExitStack) -> None:
        port, rules = _port(end.local), EncapsulationRules.of(end)
        add = ["ip", "link", "add", "name", end.device, "address", MAC.hex(":"), "mtu", str(end.mtu), "type", "ifb"]
        changes.run(add, ["ip", "link", "del", "dev", end.device])
        # Without neighbour discovery it sends no multicast reports either.
        changes.run(["ip", "link", "set", "dev", end.device, "arp", "off", "addrgenmode", "none"], None)
        carrier, underlay = (socket.if_nametoindex(name) for name in (end.device, port))
        place = _filter if changes.discarded else _link
        try:
            place(stack, encap(rules, underlay), "ipperf_encap", carrier, egress=True, first=True)
            # A configured tunnel takes its own packets before ISATAP sees them (RFC 5214, section 7.3).
            place(stack, decap(rules, carrier), "ipperf_decap", underlay, egress=False, first=not rules.isatap)
        except OSError as error:
            raise LabError(f"no BPF program could be put on {end.device} and {port}: {error.strerror}") from error
        changes.run(["ip", "link", "set", "dev", end.device, "up"], None)


def _link(stack: contextlib.ExitStack, code: bytes, name: str, index: int, *, egress: bool, first: bool) -> None:
    """Attach a program by a link of tcx, which ends with this process."""
    with _loaded(code, name) as loaded:
        stack.callback(os.close, bpf_assembler.attach(loaded, index, egress=egress, first=first))


def _filter(stack: contextlib.ExitStack, code: bytes, name: str, index: int, *, egress: bool, first: bool) -> None:
    """Attach a program by a filter, which takes a hundredth of a link's time."""
    preference = 1 if first else 2
    with _loaded(code, name) as loaded:
        tc_filters.add(loaded, name, index, egress=egress, preference=preference)
    stack.callback(tc_filters.remove, index, egress=egress, preference=preference)


@contextlib.contextmanager
def _loaded(code: bytes, name: str) -> Iterator[int]:
    """Load a program for as long as it takes to attach it; the attachment keeps it."""
    loaded = bpf_assembler.load(code, name)
    try:
        yield loaded
    finally:
        os.close(loaded)


def _port(ipv4: str) -> str:
    """Return the device that has this address; raise LabError if none has."""
    room = array.array("B", bytes(_IFREQ.size * _MOST_ADDRESSES))
    request = array.array("B", struct.pack("iP", len(room), room.buffer_info()[0]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCGIFCONF, request)
    found = memoryview(room)[: struct.unpack_from("i", request)[0]]
    for label, address in _IFREQ.iter_unpack(found):
        if address == socket.inet_aton(ipv4):
            return str(label.rstrip(b"\0").decode().partition(":")[0])
    raise LabError(f"no device of this host has address {ipv4}; the tunnel's end has to be an address of it")


@cache
def _refusal() -> str:
    """Return why programs or carrier would not work here, tested without changing the host; empty if they would."""
    rules = EncapsulationRules(b"\xc6\x12\0\1", b"\xc6\x12\0\2", isatap=False, ttl=64)
    try:
        for name, code in (("ipperf_encap", encap(rules, 1)), ("ipperf_decap", decap(rules, 1))):
            os.close(bpf_assembler.load(code, name))
    except OSError as error:
        return f"the kernel refuses its programs ({error.strerror}); it works where CONFIG_BPF_SYSCALL is set"
    try:
        done = subprocess.run(
            ["unshare", "--net", "ip", "link", "add", "ipperf", "type", "ifb"],
            capture_output=True,
            text=True,
            timeout=10,
            env=search_path(),
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"its carrier cannot be tried ({error}); it works where unshare and ip do"
    if done.returncode:
        return f"there is no ifb device for its carrier ({done.stderr.strip()}); it works where CONFIG_IFB is set"
    return ""


backend = Ebpf()
