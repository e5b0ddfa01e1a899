"""Control connection: the ssh connection of a controller on another machine, and the count of its segments.

sshd names its two ends in the environment (ssh(1), SSH_CONNECTION), and the kernel describes any connection by netlink
(sock_diag(7)), whoever owns it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path

from pytest_ipperf.agent.kernel.netlink import SOCK_DIAG, ask, attributes
from pytest_ipperf.agent.kernel.processes import process_of
from pytest_ipperf.agent.sockets.tcp_info import segments

_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST = struct.Struct("=BBBBI")
_ENDS = struct.Struct("!HH16s16s")
_ANY_DEVICE, _ANY_SOCKET = b"\0" * 4, b"\xff" * 8
_INFO = 2  # INET_DIAG_INFO, a `tcp_info`
_MESSAGE_BYTES = 72  # struct inet_diag_msg
_POLL_S = 0.005
# 50 ms, as Linux delays an acknowledgement by 40 (RFC 1122, section 4.2.3.2 allows 500), and a second.
_STILL_POLLS, _MOST_POLLS = 10, 200

_CONNECTION = "SSH_CONNECTION"
_MOST_PARENTS = 5

Ends = tuple[str, int, str, int]
"""Address and port of the other end, then of ours."""


class ControlConnection:
    """Segment counters of the control connection, if sshd names one and the kernel shows it; else unknown."""

    def __init__(self, ends: Ends | None) -> None:
        self._question = _question(ends) if ends else b""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ControlConnection:
        """Return the control connection of a process that sshd started, even under sudo, which clears its variables."""
        return cls(parse_ends(ssh_connection(environment)))

    def packets(self) -> int | None:
        """Return the segments of both directions so far; None if they are not counted."""
        return None if (counters := self._counters()) is None else counters[1]

    def settle(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait until all segments have been sent and acknowledged, whatever the round trip; a second at most."""
        before, still = self._counters(), 0
        for _ in range(_MOST_POLLS):
            sleep(_POLL_S)
            now = self._counters()
            on_its_way = now is not None and now[0] > 0
            before, still = now, still + 1 if now == before and not on_its_way else 0
            if still == _STILL_POLLS:
                break

    def _counters(self) -> tuple[int, int] | None:
        """Return how many of our segments are unacknowledged, and how many segments passed in both directions."""
        if not self._question:
            return None
        try:
            (answer,) = ask(_BY_FAMILY, self._question, family=SOCK_DIAG)
            return segments(attributes(answer[_MESSAGE_BYTES:])[_INFO])
        except (OSError, ValueError, KeyError, struct.error):  # an older kernel, or another network than sshd's
            self._question = b""
            return None


def ssh_connection(environment: Mapping[str, str]) -> str:
    """Return SSH_CONNECTION of this process; empty if there is none."""
    return environment.get(_CONNECTION) or (_ssh_connection_above_sudo() if "SUDO_UID" in environment else "")


def _ssh_connection_above_sudo() -> str:
    """Return SSH_CONNECTION of an ancestor process, as far as the kernel shows it; empty if there is none."""
    pid = os.getppid()
    for _ in range(_MOST_PARENTS):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                name, _, value = line.decode(errors="replace").partition("=")
                if name == _CONNECTION:
                    return value
        if (process := process_of(pid)) is None:
            break
        pid = process.parent
    return ""


def parse_ends(ssh_connection: str) -> Ends | None:
    """Parse SSH_CONNECTION, `192.0.2.1 50000 192.0.2.2 22`; return None for anything else."""
    try:
        theirs, their_port, ours, our_port = ssh_connection.split()
        ip_address(theirs.partition("%")[0]), ip_address(ours.partition("%")[0])
        return theirs.partition("%")[0], int(their_port), ours.partition("%")[0], int(our_port)
    except ValueError:
        return None


def _question(ends: Ends) -> bytes:
    """Return a request for one connection, `struct inet_diag_req_v2` of linux/inet_diag.h."""
    theirs, their_port, ours, our_port = ends
    address = ip_address(ours)
    mapped = getattr(address, "ipv4_mapped", None)
    family = socket.AF_INET if address.version == 4 or mapped else socket.AF_INET6
    packed = [(getattr(ip_address(each), "ipv4_mapped", None) or ip_address(each)).packed for each in (ours, theirs)]
    head = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 0xFFFFFFFF)
    return head + _ENDS.pack(our_port, their_port, *packed) + _ANY_DEVICE + _ANY_SOCKET
