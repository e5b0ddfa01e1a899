"""Counters of a network interface, by netlink (RFC 3549): bytes that it has received and sent, and packets sent.

They are those of Ethernet frames without preamble, check sequence and gap; on Linux ifHCInOctets of RFC 2863 has them.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import NamedTuple

from pytest_ipperf.agent.kernel.netlink import ask, attributes

_GETSTATS = 94
_LINK_64 = 1  # IFLA_STATS_LINK_64, which is also the first bit of the filter
_REQUEST = struct.Struct("=BxxxII")
_COUNTERS = struct.Struct("=4Q")  # packets in and out, bytes in and out


class InterfaceBytes(NamedTuple):
    """Bytes that an interface has received and sent since it exists, and the number of packets sent."""

    received: int
    sent: int
    sent_packets: int


def interface_bytes(device: str) -> InterfaceBytes:
    """Return the counters of a device in this network namespace; raise OSError if there is none of that name."""
    index = socket.if_nametoindex(device)
    (reply,) = ask(_GETSTATS, _REQUEST.pack(socket.AF_UNSPEC, index, 1 << _LINK_64 - 1))
    counters = attributes(reply[_REQUEST.size :])[_LINK_64]
    _, packets, received, sent = _COUNTERS.unpack_from(counters)
    return InterfaceBytes(received, sent, packets)


def all_received_bytes() -> int:
    """Return the bytes that all interfaces of this network namespace have received."""
    lines = Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return sum(int(line.partition(":")[2].split()[0]) for line in lines)
