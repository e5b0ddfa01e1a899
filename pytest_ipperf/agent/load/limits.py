"""Limits of this host for a run: file descriptors and ports, checked before it starts."""

from __future__ import annotations

import resource
from pathlib import Path

from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.protocols import application

_OTHERS = 64
"""Descriptors of a process beside those of its connections."""


def enough_descriptors(spec: LoadSpec) -> None:
    """Raise the soft limit as far as the hard one allows; raise LabError if that cannot be enough."""
    least = most_descriptors(spec)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < least:
        raise LabError(
            f"{spec.connection_count} connections need {least} file descriptors in a process here, and no more than "
            f"{hard} are allowed (ulimit -H -n); allow {least}, or measure with fewer connections or more workers"
        )
    wanted = 2 * least if hard == resource.RLIM_INFINITY else min(2 * least, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_descriptors(spec: LoadSpec) -> int:
    """Return how many descriptors one process needs at most at once."""
    protocol = application(spec.protocol)
    per_worker = -(-spec.connection_count // spec.workers)
    # The agent holds descriptors of the library's staying sessions too.
    staying = spec.bursts * (1 + (spec.client != "lean")) if protocol.stays else 1
    return per_worker * (staying + protocol.sockets - 1) + _OTHERS


def ephemeral_ports() -> tuple[int, int]:
    """Return the first and the last ephemeral port, which IPv6 shares."""
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
    return int(low), int(high)


def enough_ports(spec: LoadSpec) -> None:
    """Raise LabError if simultaneous connections cannot all have a port of their own."""
    low, high = ephemeral_ports()
    there, stays = high - low + 1, application(spec.protocol).stays
    least = spec.connection_count * (spec.bursts if stays else 1)
    if least > there and (stays or not spec.rate_per_s):  # else ended connections leave their ports to others
        needed = "at once need as many"
        if least > spec.connection_count:
            needed = f"in each of {spec.bursts} bursts, which stay to the end of the run, need {least}"
        raise LabError(
            f"{spec.connection_count} connections {needed} ports, and there are {there} from {low} to {high} "
            "(net.ipv4.ip_local_port_range); widen the range, or measure with fewer connections"
        )
