"""Fragments that wait for others of their datagram: what is left of an overloaded run would cost the next one its own.

The kernel keeps them for half a minute, up to a few megabytes, and takes no fragment any more when those are full
(ip-sysctl: ipfrag_time, ipfrag_high_thresh).
"""

from __future__ import annotations

import time
from pathlib import Path

from pytest_ipperf.core.errors import LabError

_TABLES = {4: ("sockstat", "FRAG:"), 6: ("sockstat6", "FRAG6:")}
_LIMITS = {4: "ipv4/ipfrag_high_thresh", 6: "ipv6/ip6frag_high_thresh"}
_PATIENCE_S = 3.0
_LOOK_S = 0.05


def waiting_bytes(ipver: int) -> int:
    """The memory of this host's network that incomplete datagrams of that IP version take."""
    table, kind = _TABLES[ipver]
    for line in Path("/proc/net", table).read_text(encoding="ascii").splitlines():
        if line.startswith(kind):
            return int(line.split()[-1])
    return 0


def most_bytes(ipver: int) -> int:
    """How much of it they may take; 0 where the kernel does not tell."""
    limit = Path("/proc/sys/net", _LIMITS[ipver])
    return int(limit.read_text(encoding="ascii")) if limit.exists() else 0


def await_room(ipver: int) -> str:
    """Waits a little until none are left; a sentence where some are. LabError where they take half of the room."""
    end = time.monotonic() + _PATIENCE_S
    while (left := waiting_bytes(ipver)) and time.monotonic() < end:
        time.sleep(_LOOK_S)
    if not left:
        return ""
    most = most_bytes(ipver)
    sentence = f"{left} bytes of incomplete IPv{ipver} datagrams wait at the receiving host, which keeps {most} at most"
    if 2 * left > most > 0:
        raise LabError(
            f"{sentence}, so fragments of this run would find no room; wait half a minute, or allow more there "
            f"(net.{_LIMITS[ipver].replace('/', '.')})"
        )
    return f"{sentence}: somebody else sends fragments there, or a run before this one did"
