"""Receive timestamps of the kernel (socket(7), SO_TIMESTAMPNS): how long data waited until a client read it.

docs/decisions/0013-lateness-is-a-column.md says why they correct nothing.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Sequence

SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("ll")
TIMESTAMP_SPACE = socket.CMSG_SPACE(_STAMP.size)
"""Bytes of control messages to allow for with each read."""


def rx_timestamping() -> socket.socket:
    """Return a socket that keeps receive timestamps enabled in the kernel while it is open.

    Without it the kernel would enable them, by patching its own code, with each burst's first connection, and the first
    segments of the burst would have no timestamp.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return sock


def rx_delay_s(stamps: Sequence[tuple[int, int, bytes]], most_s: float) -> float:
    """Return how long the segment read last had waited; nan if there is no timestamp or an impossible one.

    Timestamps are of the wall clock, which may be set at any moment; no segment waits for longer than `most_s`.
    """
    for _, kind, value in stamps:
        if kind == SO_TIMESTAMPNS and len(value) == _STAMP.size:
            seconds, nanoseconds = _STAMP.unpack(value)
            delay_s = (time.time_ns() - seconds * 1_000_000_000 - nanoseconds) * 1e-9
            return delay_s if 0 <= delay_s <= most_s else math.nan
    return math.nan
