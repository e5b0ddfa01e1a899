"""Receive timestamps of the kernel (socket(7), SO_TIMESTAMPNS): how long data waited until a client read it.

docs/decisions/0013-lateness-is-a-column.md says why they correct nothing.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("ll")
TIMESTAMP_SPACE = socket.CMSG_SPACE(_STAMP.size)
"""Bytes of control messages to allow for with each read."""
_TRIES, _UNDISTURBED_NS = 3, 5000

Stamps = Sequence[tuple[int, int, bytes]]
"""Ancillary data of a received message, as `socket.recvmsg` returns it."""


def rx_timestamping() -> socket.socket:
    """Return a socket that keeps receive timestamps enabled in the kernel while it is open.

    Without it the kernel would enable them, by patching its own code, with each burst's first connection, and the first
    segments of the burst would have no timestamp.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return sock


def wall_clock_lead_ns() -> int:
    """Return the lead of the wall clock over `perf_counter`; only setting it changes that, as both are slewed alike."""
    readings = []
    for _ in range(_TRIES):
        before, wall, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        readings.append((after - before, wall - (before + after) // 2))
        if after - before < _UNDISTURBED_NS:
            break
    return min(readings)[1]


def segment_timestamp_ns(stamps: Stamps) -> int:
    """Return the instant of the wall clock at which the segment came, the first of the ancillary data."""
    seconds, nanoseconds = _STAMP.unpack(stamps[0][2])
    return int(seconds * 1_000_000_000 + nanoseconds)
