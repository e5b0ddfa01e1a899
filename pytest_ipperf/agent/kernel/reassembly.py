"""Fragments that wait for the rest of their datagram; leftovers of an overloaded run would cost the next run its own.

The kernel keeps them for half a minute, up to a few megabytes, and then accepts no more fragments (ip-sysctl:
ipfrag_time, ipfrag_high_thresh). It reports expired ones to the sender (ICMP, time exceeded), in packets that would
count as the next run's; where it keeps fragments only briefly, all have expired before the next run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.core.portable.errors import LabError

_TABLES = {4: ("sockstat", "FRAG:"), 6: ("sockstat6", "FRAG6:")}
_LIMITS = {4: "ipv4/ipfrag_high_thresh", 6: "ipv6/ip6frag_high_thresh"}
_LIFETIMES = {4: "ipv4/ipfrag_time", 6: "ipv6/ip6frag_time"}
_TIMEOUT_S = 3.0
_SHORT_LIFETIME_S = 2
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ReassemblyCounts:
    """Counts of this network namespace for an IP version (RFC 4293: ipSystemStatsReasm...), all since it exists.

    `fragments` have arrived, `datagrams` were put together of them, and `refused` are the fragments for which there was
    no room (ip-sysctl: ipfrag_high_thresh) or which did not fit the others. Incomplete datagrams are not in it.
    """

    fragments: int
    datagrams: int
    refused: int

    def since(self, before: ReassemblyCounts) -> ReassemblyCounts:
        """Return what was counted since an earlier reading."""
        return ReassemblyCounts(
            self.fragments - before.fragments, self.datagrams - before.datagrams, self.refused - before.refused
        )


def reassembly_counts(ipver: int) -> ReassemblyCounts:
    """Return the present counts."""
    counts = _ip_counts() if ipver == 4 else _ip6_counts()
    # The kernel counts a datagram that waits for too long as a failure too (net/ipv4/ip_fragment.c: ip_expire).
    refused = counts["ReasmFails"] - counts["ReasmTimeout"]
    return ReassemblyCounts(counts["ReasmReqds"], counts["ReasmOKs"], refused)


def _ip_counts() -> dict[str, int]:
    lines = Path("/proc/net/snmp").read_text(encoding="ascii").splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("Ip:"))
    return dict(zip(names, map(int, values), strict=True))


def _ip6_counts() -> dict[str, int]:
    lines = Path("/proc/net/snmp6").read_text(encoding="ascii").splitlines()
    return {name.removeprefix("Ip6"): int(value) for name, value in map(str.split, lines) if name.startswith("Ip6")}


def waiting_bytes(ipver: int) -> int:
    """Return the memory in bytes that incomplete datagrams of that IP version take in this network namespace."""
    table, kind = _TABLES[ipver]
    for line in Path("/proc/net", table).read_text(encoding="ascii").splitlines():
        if line.startswith(kind):
            return int(line.split()[-1])
    return 0


def most_bytes(ipver: int) -> int:
    """Return the limit of that memory in bytes; 0 if the kernel does not show it."""
    limit = Path("/proc/sys/net", _LIMITS[ipver])
    return int(limit.read_text(encoding="ascii")) if limit.exists() else 0


def wait_for_drain(ipver: int | None) -> list[str]:
    """Wait briefly until no fragments are left; return a sentence for each IP version that still has some.

    `ipver` is the version of the fragments to come, None if none will; of other versions only fragments with a short
    lifetime are waited for. Raise LabError if leftovers take half of the room of those to come.
    """
    versions = [each for each in _TABLES if each == ipver or _soon_gone(each)]
    end = time.monotonic() + _TIMEOUT_S
    while any(map(waiting_bytes, versions)) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return [_sentence(each, left, to_come=each == ipver) for each in versions if (left := waiting_bytes(each))]


def _soon_gone(ipver: int) -> bool:
    lifetime = Path("/proc/sys/net", _LIFETIMES[ipver])
    return lifetime.exists() and int(lifetime.read_text(encoding="ascii")) <= _SHORT_LIFETIME_S


def _sentence(ipver: int, left: int, *, to_come: bool) -> str:
    most = most_bytes(ipver)
    sentence = f"{left} bytes of incomplete IPv{ipver} datagrams wait at the receiving host, which keeps {most} at most"
    if to_come and 2 * left > most > 0:
        raise LabError(
            f"{sentence}, so fragments of this run would find no room; wait half a minute, or allow more there "
            f"(net.{_LIMITS[ipver].replace('/', '.')})"
        )
    return f"{sentence}: somebody else sends fragments there, or a run before this one did"
