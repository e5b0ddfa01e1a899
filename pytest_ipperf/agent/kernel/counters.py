"""Counters of this host: TCP errors and processor time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ERROR_COUNTERS = (
    "ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies", "TCPTimeouts", "TCPSynRetrans",
    "RetransSegs", "AttemptFails",
)  # fmt: skip
"""What nstat(8) calls TcpExt and Tcp counters of trouble: a healthy run moves none of them.

The first four are a full queue of the listening socket (a SYN cookie is such a queue in disguise), the others segments
that were sent again and connections that failed (RFC 4022: tcpRetransSegs, tcpAttemptFails).
"""


def tcp_error_counters() -> dict[str, int]:
    """The counters of `ERROR_COUNTERS` that this kernel has, of this network namespace, since it began."""
    found = {name: value for table in ("netstat", "snmp") for name, value in _pairs(Path("/proc/net", table))}
    return {name: found[name] for name in ERROR_COUNTERS if name in found}


def _pairs(table: Path) -> Iterator[tuple[str, int]]:
    """Names and values: each kind has a line of names and a line of values below it."""
    lines = table.read_text(encoding="ascii").splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        kind, *keys = names.split()
        if kind in ("TcpExt:", "Tcp:"):
            yield from zip(keys, map(int, values.split()[1:]), strict=True)


def cpu_times_s() -> dict[str, float]:
    """Seconds of all processors since this machine began: `busy` with work, `stolen` by a hypervisor (proc(5))."""
    user, nice, system, _, _, interrupts, soft, stolen = map(
        int, Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=9)[1:9]
    )
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return {"busy": tick_s * (user + nice + system + interrupts + soft), "stolen": tick_s * stolen}


def deltas(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What has moved between two readings, and by how much."""
    return {name: after[name] - before[name] for name in after if after[name] != before.get(name, 0)}
