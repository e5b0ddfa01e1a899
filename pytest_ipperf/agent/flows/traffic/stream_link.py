"""Link by TCP connections, one for each connection of the workload; each packet is a message with its size before it.

A message has arrived when the read that has its last byte returned.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from itertools import repeat

from pytest_ipperf.agent.flows.traffic.link import Link
from pytest_ipperf.agent.flows.traffic.packet_format import CONTROL, COUNTS, NUMBER
from pytest_ipperf.agent.sockets.target import failure_kind
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.model import MOST_BYTES
from pytest_ipperf.core.portable.traffic.schedule import Packet

_READ_BYTES = 1 << 16
_MOST_PENDING_BYTES = 1 << 20
_POLL_MS = 20
_MESSAGE = struct.Struct("!IHHIQ")
MESSAGE_BYTES = _MESSAGE.size
"""Bytes of the smallest message: size, identifier, stream, number and instant."""


class StreamLink(Link):
    """Link by connections in the order of the workload's, each with `streams` streams.

    A connection with more than 1 MiB waiting to be sent has no room for further messages.
    """

    least_bytes = MESSAGE_BYTES

    def __init__(self, socks: Sequence[socket.socket], ident: int, peer: str, streams: int) -> None:
        super().__init__(ident, peer)
        self._socks, self._streams = list(socks), streams
        self._pending = [bytearray() for _ in socks]
        self._received = [bytearray() for _ in socks]
        self._poll = select.poll()
        self._places = {sock.fileno(): place for place, sock in enumerate(self._socks)}
        for sock in self._socks:
            sock.settimeout(0)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._poll.register(sock, select.POLLIN)
        self._content = bytes(MOST_BYTES)

    def send(self, packet: Packet, counts: bool, at_ns: int) -> bool:  # noqa: FBT001 - it is called for each packet
        """Send a packet as a message on its stream's connection, or as much of it as there is room for."""
        place = packet.stream // self._streams
        if len(self._pending[place]) > _MOST_PENDING_BYTES:
            return False
        number = packet.number | COUNTS if counts else packet.number
        self._pending[place] += _MESSAGE.pack(packet.size_bytes, self._ident, packet.stream, number, at_ns)
        self._pending[place] += self._content[: packet.size_bytes - MESSAGE_BYTES]
        self._flush(place)
        return True

    def control(self, kind: int, value: int = 0) -> None:
        """Send a control message on the first connection."""
        self._pending[0] += control_message(self._ident, kind, value)
        self._flush(0)

    def flush(self) -> bool:
        """Send what had to wait; return whether nothing waits any more."""
        left = [self._flush(place) for place, pending in enumerate(self._pending) if pending]
        return not any(left)

    def _flush(self, place: int) -> bool:
        """Send what a connection has room for; return whether some is left."""
        pending = self._pending[place]
        try:
            del pending[: self._socks[place].send(pending)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError) as error:
            if not self.over:
                raise self._died() from error
            pending.clear()
        except OSError as error:
            raise LabError(f"a connection with {self._peer} broke: {failure_kind(error)}") from error
        return bool(pending)

    def _turn(self) -> None:
        for number, _ in self._poll.poll(_POLL_MS):
            place = self._places[number]
            try:
                data = self._socks[place].recv(_READ_BYTES)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                data = b""
            except OSError as error:
                raise LabError(f"a connection with {self._peer} broke: {failure_kind(error)}") from error
            came_ns = time.monotonic_ns()
            if not data:
                self._ended(number)
                continue
            self._received[place] += data
            messages = list(taken(self._received[place]))
            heads = [each[1:] for each in messages]
            self.arrivals.note(heads, [each[0] for each in messages], repeat(came_ns, len(messages)))

    def _ended(self, number: int) -> None:
        """Note that the other end closed a connection, which it does when both ends have sent everything."""
        if not self.over:
            raise self._died()
        self._poll.unregister(number)


def control_message(ident: int, kind: int, value: int) -> bytes:
    """Return a control message of a TCP connection."""
    return _MESSAGE.pack(MESSAGE_BYTES, ident, CONTROL, kind, value)


def taken(received: bytearray) -> Iterator[tuple[int, int, int, int, bool, int]]:
    """Take the complete messages off the beginning; yield the size of each, and its head."""
    begin, there = 0, len(received)
    while begin + MESSAGE_BYTES <= there:
        size, ident, stream, number, at_ns = _MESSAGE.unpack_from(received, begin)
        if not MESSAGE_BYTES <= size <= MOST_BYTES:
            raise LabError(f"a message of {size} bytes arrived, which this engine does not send")
        if begin + size > there:
            break
        yield size, ident, stream, number & NUMBER, number >= COUNTS, at_ns
        begin += size
    del received[:begin]
