"""TCP connections of this network namespace that are not over yet, by the kernel's sock_diag (sock_diag(7)).

`/proc/net/tcp` tells the same, but takes the kernel more than ten times as long, also if there are no connections.
"""

from __future__ import annotations

import contextlib
import re
import struct
from pathlib import Path

from pytest_ipperf.agent.kernel.netlink import SOCK_DIAG, ask

# Numbers of include/net/tcp_states.h: ESTABLISHED, SYN_RECV, both FIN_WAIT, CLOSE_WAIT, LAST_ACK and CLOSING, in which
# both ends have closed at once and the client may still have to acknowledge that. TIME_WAIT is left out: it lasts a
# minute, costs nothing, and every connection that the server closes ends in it.
_OPEN_STATES = (1, 3, 4, 5, 8, 9, 11)
# TCPDIAG_GETSOCK, the older request, takes no family for both at once. The kernel walks the connections of all its
# network namespaces for a reply, so one request takes half the time of two.
_OF_TCP = 18
# `struct inet_diag_req` of linux/inet_diag.h: family, prefix lengths, extensions; ports, addresses; device and cookie
# of no particular socket; states.
_BOTH_FAMILIES = bytes(4)
_PORTS = struct.Struct("!HH32x")
_ANY_SOCKET = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_STATES = struct.pack("=II", sum(1 << state for state in _OPEN_STATES), 0)
_SOCKSTAT = ("/proc/net/sockstat", "/proc/net/sockstat6")
_USED = re.compile(r"^TCP6?: inuse (\d+)(?:.* tw (\d+))?", re.MULTILINE)


def open_connections(port: int | None = None) -> int:
    """Count the TCP connections of this namespace that are not over yet; with `port`, those with this local port."""
    if _none():
        return 0
    try:
        return _counted(port or 0)
    except OSError:  # a kernel without tcp_diag
        # Several reads make a file, between which a connection that changes its state may be passed over.
        return _listed(port) or _listed(port)


def _none() -> bool:
    """Return whether this namespace has no TCP socket at all, by its counters, which cost hardly any time.

    Connections that only wait for the peer's FIN may be among those that the kernel counts as TIME_WAIT (`tw`). Where
    nothing listens, nothing is half open, which no counter tells.
    """
    with contextlib.suppress(FileNotFoundError):
        found = [_USED.search(Path(each).read_text(encoding="ascii")) for each in _SOCKSTAT]
        return all(each is not None and not any(map(int, filter(None, each.groups()))) for each in found)
    return False


def _counted(port: int) -> int:
    """Ask the kernel for the connections; port 0 stands for all ports."""
    request = _BOTH_FAMILIES + _PORTS.pack(port, 0) + _ANY_SOCKET + _STATES
    return len(ask(_OF_TCP, request, dump=True, family=SOCK_DIAG))


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
