"""Link by a connected datagram socket; arrivals have the kernel's timestamps."""

from __future__ import annotations

import errno
import socket
import struct
import time

from pytest_ipperf.agent.flows.traffic.link import Link
from pytest_ipperf.agent.flows.traffic.packet_format import HEAD_BYTES, PacketFormat
from pytest_ipperf.agent.flows.udp.sockets import enlarge_buffers
from pytest_ipperf.agent.paths.clock_sync import check_not_set, clock_ahead_ns
from pytest_ipperf.agent.sockets.batch_io import STAMP_WORDS, ReceiveBatch, SingleReceiver, UnsupportedError
from pytest_ipperf.agent.sockets.buffers import dropped
from pytest_ipperf.agent.sockets.target import failure_kind
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.model import MOST_BYTES
from pytest_ipperf.core.portable.traffic.schedule import Packet

_BATCH = 256
_NAP_S = 0.001
_LOOK = struct.pack("ll", 0, 20_000)  # interval between checks whether to end, in s and us
_NO_ROOM = (errno.EAGAIN, errno.ENOBUFS)


class DatagramLink(Link):
    """Link by a socket that is connected to the other end."""

    def __init__(self, sock: socket.socket, form: PacketFormat, ident: int, peer: str) -> None:
        super().__init__(ident, peer)
        self.least_bytes, self._form, self._sock = form.least_bytes, form, sock
        self._buffer = bytearray(MOST_BYTES)
        self._view = memoryview(self._buffer)
        self._ahead_ns = clock_ahead_ns(time.CLOCK_REALTIME)
        enlarge_buffers(sock)
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _LOOK)
        self._dropped = dropped(sock)
        self._box: ReceiveBatch | SingleReceiver
        try:
            self._box = ReceiveBatch(sock, MOST_BYTES, _BATCH, head_bytes=HEAD_BYTES)
        except UnsupportedError:
            self._box = SingleReceiver(sock, MOST_BYTES, head_bytes=HEAD_BYTES)

    def send(self, packet: Packet, counts: bool, at_ns: int) -> bool:  # noqa: FBT001 - it is called for each packet
        """Send a packet in a datagram; its content behind the header is zeros."""
        self._form.pack(self._buffer, self._ident, packet, at_ns, counts=counts)
        return self._send(self._view[: packet.size_bytes])

    def control(self, kind: int, value: int = 0) -> None:
        """Send a control packet, which may be lost."""
        self._send(self._form.control(self._ident, kind, value))

    def check_clock(self) -> None:
        """Raise LabError if this host's clock was set since the link was made, as arrivals have times by it."""
        check_not_set(str(self._sock.getsockname()[0]), self._ahead_ns, clock_ahead_ns(time.CLOCK_REALTIME))

    def drops(self) -> int:
        """Return how many datagrams the socket's buffer had no room for."""
        return dropped(self._sock) - self._dropped

    def _send(self, data: memoryview | bytes) -> bool:
        for last in (False, True):
            try:
                self._sock.send(data, socket.MSG_DONTWAIT)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    return False
                if error.errno == errno.ECONNREFUSED:
                    if self.over:
                        return False
                    raise self._died() from error
                # A router's report that packets are too large comes once; then the kernel sends fragments.
                if error.errno != errno.EMSGSIZE or last:
                    raise LabError(f"no packets can be sent to {self._peer}: {failure_kind(error)}") from error
            else:
                return True
        raise AssertionError

    def _turn(self) -> None:
        count = 0
        try:
            for words, stamps in self._box.read():
                seconds, rests = stamps[2::STAMP_WORDS].tolist(), stamps[3::STAMP_WORDS].tolist()
                came_ns = [s * 1_000_000_000 + rest - self._ahead_ns for s, rest in zip(seconds, rests, strict=True)]
                count = len(came_ns)
                self.arrivals.note(self._form.heads(words.cast("B")), self._box.lengths, came_ns)
        except BlockingIOError:
            return
        except ConnectionRefusedError as error:
            if not self.over:
                raise self._died() from error
        if count < self._box.messages:
            time.sleep(_NAP_S)
