"""TCP connections of this network namespace that are not over yet, by the kernel's sock_diag (sock_diag(7)).

`/proc/net/tcp` tells the same, but takes the kernel more than ten times as long, also if there are no connections.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

from pytest_ipperf.agent.kernel.netlink import SOCK_DIAG, ask

# Numbers of include/net/tcp_states.h: ESTABLISHED, SYN_RECV, both FIN_WAIT, CLOSE_WAIT, LAST_ACK and CLOSING, in which
# both ends have closed at once and the client may still have to acknowledge that. TIME_WAIT is left out: it lasts a
# minute, costs nothing, and every connection that the server closes ends in it.
_OPEN_STATES = (1, 3, 4, 5, 8, 9, 11)
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
# `struct inet_diag_req_v2` of linux/inet_diag.h: family, protocol, extensions, states; ports and addresses; device and
# cookie of no particular socket.
_REQUEST = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH32x")
_ANY_SOCKET = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)


def open_connections(port: int | None = None) -> int:
    """Count the TCP connections of this namespace that are not over yet; with `port`, those with this local port."""
    try:
        return sum(_counted(family, port or 0) for family in (socket.AF_INET, socket.AF_INET6))
    except OSError:  # a kernel without tcp_diag
        return _listed(port)


def _counted(family: socket.AddressFamily, port: int) -> int:
    """Ask the kernel for the connections of one family; port 0 stands for all ports."""
    states = sum(1 << state for state in _OPEN_STATES)
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, states) + _PORTS.pack(port, 0) + _ANY_SOCKET
    return len(ask(_BY_FAMILY, request, dump=True, family=SOCK_DIAG))


def _listed(port: int | None) -> int:
    """Count the same in the kernel's text files."""
    wanted = "" if port is None else f":{port:04X}"
    states = {f"{state:02X}" for state in _OPEN_STATES}
    count = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                if wanted in line:
                    _, local, _, state, *_ = line.split(maxsplit=4)
                    count += local.endswith(wanted) and state in states
    return count
