"""Counters of this host: TCP errors and processor time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ERROR_COUNTERS = (
    "ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies", "TCPTimeouts", "TCPSynRetrans",
    "RetransSegs", "AttemptFails",
)  # fmt: skip
"""Error counters of TCP, under nstat(8)'s names in TcpExt and Tcp; a healthy run increments none of them.

The first four count a full queue of the listening socket (a SYN cookie means a full queue too), the others
retransmitted segments and failed connections (RFC 4022: tcpRetransSegs, tcpAttemptFails).
"""


def tcp_error_counters() -> dict[str, int]:
    """Return the counters of `ERROR_COUNTERS` that this kernel has, for this network namespace, since it began."""
    found = {name: value for table in ("netstat", "snmp") for name, value in _pairs(Path("/proc/net", table))}
    return {name: found[name] for name in ERROR_COUNTERS if name in found}


def _pairs(table: Path) -> Iterator[tuple[str, int]]:
    """Yield names and values: each kind has a line of names and a line of values below it."""
    lines = table.read_text(encoding="ascii").splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        kind, *keys = names.split()
        if kind in ("TcpExt:", "Tcp:"):
            yield from zip(keys, map(int, values.split()[1:]), strict=True)


def cpu_times_s() -> dict[str, float]:
    """Return seconds of all processors since this machine began: `busy` working, `stolen` by a hypervisor (proc(5))."""
    user, nice, system, _, _, interrupts, soft, stolen = map(
        int, Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=9)[1:9]
    )
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return {"busy": tick_s * (user + nice + system + interrupts + soft), "stolen": tick_s * stolen}


def deltas(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return by how much each changed counter differs between two readings."""
    return {name: after[name] - before[name] for name in after if after[name] != before.get(name, 0)}
