"""Rate of a shaped path by a packet train: datagrams sent back to back, and their spacing at the far end.

The receiver's kernel stamps them (SO_TIMESTAMPNS) and keeps them until they are read after the train, so that no work
of ours affects the figure. A token bucket of rate R passes packets until it is empty, and then one packet every size /
R seconds: the timestamps lie on that line, or above it where the machine was late. So the line is fitted below them. A
pause before the bucket that lets it fill up again lifts the rest of the line, and the train looks slow. A program
behind it, such as a tunnel's forwarder, that receives packets late and forwards them at once makes it look fast. So the
rate takes several trains.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import socket
import struct
import time

from pytest_ipperf.agent.sockets.buffers import set_buffer_size
from pytest_ipperf.agent.sockets.receive_timestamps import SO_TIMESTAMPNS, TIMESTAMP_SPACE
from pytest_ipperf.core.portable.errors import LabError

_FIRST_BYTES = 16384  # a bucket may pass them at once, so this part of a train says nothing of the rate
_HEAD = struct.Struct("!QI")  # identifier of the train, and number of the datagram
_STAMP = struct.Struct("ll")
_LEAST = 30  # datagrams after the bucket is empty
_LASTS_S = 0.02
_QUEUE_S, _QUEUE_BYTES = 0.015, 8192  # less than the queue of a shaper may hold
_RECEIVE_BYTES = 4096  # most kernel memory of a received datagram of Ethernet size that waits to be read
_SEND_BYTES = 2304  # the same of one that waits to be sent
_WARM_S = 0.005
_SILENCE_S = 0.5
_BUSY_S = 10.0


def length(rate: float, wire_bytes: int) -> tuple[int, int]:
    """Return the number of datagrams of a train on a path of this rate in bit/s, and how many the sender may queue."""
    backlog = int((rate * _QUEUE_S / 8 + _QUEUE_BYTES) / wire_bytes)
    return min(2000, max(60, int(rate * _LASTS_S / 8 / wire_bytes))), min(180, max(4, backlog))


def rate_bit_s(stamps_ns: list[int], wire_bytes: int) -> float | None:
    """Return the rate at which datagrams of `wire_bytes` each, all layers included, came; None if they are too few.

    The line below the timestamps is the edge of their lower convex hull over the middle one of those that count.
    """
    first = math.ceil(_FIRST_BYTES / wire_bytes)
    counted = list(enumerate(stamps_ns))[first:]
    if len(counted) < _LEAST:
        return None
    hull: list[tuple[int, int]] = []
    for point in counted:
        while len(hull) > 1 and _above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    middle = first + len(counted) // 2
    (left, began), (right, ended) = next(edge for edge in itertools.pairwise(hull) if edge[1][0] >= middle)
    return (right - left) * wire_bytes * 8e9 / (ended - began) if ended > began else None


def _above(before: tuple[int, int], point: tuple[int, int], after: tuple[int, int]) -> bool:
    """Return whether a point is on or above the line between its neighbours."""
    return (point[1] - before[1]) * (after[0] - before[0]) >= (after[1] - before[1]) * (point[0] - before[0])


class TrainReceiver:
    """Receiver of trains on a free port of `address`, with a buffer for so many datagrams if this user may have it."""

    def __init__(self, address: str, datagrams: int) -> None:
        self._sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._sock.bind((address, 0))
        except OSError as error:
            self._sock.close()
            raise LabError(f"no train can be received on {address}: {error.strerror}") from error
        self._sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        set_buffer_size(self._sock, socket.SO_RCVBUF, datagrams * _RECEIVE_BYTES // 2)
        self.port: int = self._sock.getsockname()[1]

    def stamps_ns(self, ident: int, datagrams: int) -> list[int]:
        """Return the timestamps of a train's datagrams, from the first to the last before a missing one.

        Wait for those still on their way until there is silence.
        """
        found: list[int] = []
        self._sock.settimeout(_SILENCE_S)
        with contextlib.suppress(TimeoutError):
            while len(found) < datagrams:
                data, messages, _, _ = self._sock.recvmsg(_HEAD.size, TIMESTAMP_SPACE)
                if len(data) < _HEAD.size or _HEAD.unpack(data)[0] != ident:
                    continue
                if _HEAD.unpack(data)[1] != len(found):
                    break
                found += [_nanoseconds(value) for _, kind, value in messages if kind == SO_TIMESTAMPNS]
        return found

    def close(self) -> None:
        """Stop receiving."""
        self._sock.close()


def _nanoseconds(stamp: bytes) -> int:
    seconds, nanoseconds = _STAMP.unpack(stamp)
    return int(seconds * 1_000_000_000 + nanoseconds)


def send_train(
    source: str, destination: tuple[str, int], ident: int, *, packet_bytes: int, datagrams: int, backlog: int
) -> None:
    """Send a train in IP packets of that size, of which the kernel queues at most `backlog`.

    They must be enough to keep the path busy while this process does not run, and few enough for the path's queue. A
    short datagram goes first, so that address resolution along the path is done before the train.
    """
    six = ":" in destination[0]
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, backlog * _SEND_BYTES // 2)
        sock.setsockopt(*((socket.IPPROTO_IPV6, 23, 2) if six else (socket.IPPROTO_IP, 10, 2)))  # never in fragments
        sock.settimeout(_BUSY_S)
        try:
            sock.bind((source, 0))
            sock.connect(destination)
            sock.send(b"")
            time.sleep(_WARM_S)
            rest = bytes(packet_bytes - (40 if six else 20) - 8 - _HEAD.size)
            for number in range(datagrams):
                sock.send(_HEAD.pack(ident, number) + rest)
        except OSError as error:
            why = "too big" if error.errno == errno.EMSGSIZE else error.strerror or error
            raise LabError(f"no train of packets of {packet_bytes} bytes to {destination[0]}: {why}") from error
