"""Software transmit and receive timestamps of the kernel (Linux, Documentation/networking/timestamping.rst).

They are taken where a packet is handed to a device, or comes from it. Their clock may be set at any moment, so only
differences within a short time mean anything.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Sequence

_SO_TIMESTAMPING = 37
# TX_SOFTWARE, RX_SOFTWARE, SOFTWARE, OPT_ID and OPT_TSONLY.
_FLAGS = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 11
_STAMPS = struct.Struct("6l")  # software, unused, hardware
_ERROR = struct.Struct("IBBBBII")  # sock_extended_err
_ERRORS = {(socket.IPPROTO_IP, 11), (socket.IPPROTO_IPV6, 25)}  # IP_RECVERR, IPV6_RECVERR
CONTROL_BYTES = 512
"""Bytes of control messages to allow for with each read."""

Messages = Sequence[tuple[int, int, bytes]]


class TxTimestamps:
    """Transmit timestamps of a socket: when the messages that it sent have left."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sent: dict[int, int] = {}
        self._next = 0
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _FLAGS)

    def send(self, number: int, message: bytes | bytearray | memoryview) -> None:
        """Send a message under a number of its own."""
        try:
            self._sock.send(message)
        except OSError:  # some kernels count refused messages, so the count is restarted
            for _ in self.read():
                pass
            self._sent.clear()
            self._next = 0
            for flags in (0, _FLAGS):
                self._sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, flags)
            raise
        self._sent[self._next] = number
        self._sent.pop(self._next - 64, None)  # its timestamp never came
        self._next = self._next + 1 & 0xFFFFFFFF

    def read(self) -> Iterator[tuple[int, int]]:
        """Yield the number of each message whose timestamp has come, and when it left, in ns."""
        with contextlib.suppress(BlockingIOError):
            while True:
                messages = self._sock.recvmsg(0, CONTROL_BYTES, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)[1]
                keys = [_ERROR.unpack_from(value)[-1] for level, kind, value in messages if (level, kind) in _ERRORS]
                if keys and keys[0] in self._sent and (left_ns := rx_timestamp_ns(messages)):
                    yield self._sent.pop(keys[0]), left_ns


def rx_timestamp_ns(messages: Messages) -> int:
    """Return the receive timestamp in control messages; 0 if there is none."""
    for level, kind, value in messages:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPING):
            seconds, nanoseconds, *_ = _STAMPS.unpack_from(value)
            return int(seconds * 1_000_000_000 + nanoseconds)
    return 0
