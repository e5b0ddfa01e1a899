"""Probes by TCP: a message each way on one connection, or a connection for each probe."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time

from pytest_ipperf.agent.flows.rtt.frame import Frame
from pytest_ipperf.agent.flows.rtt.probe import LOST, Probe, set_waiting

_AT_ONCE = struct.pack("ii", 1, 0)
"""Value of SO_LINGER to close by a reset, so that neither end has to remember the connection for a minute."""
_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY)
_ESTABLISHED = (0, errno.EISCONN)


class MessageProbe(Probe):
    """Probe by messages on an established connection that sends at once (TCP_NODELAY)."""

    kind = "message"
    connections = False

    def __init__(self, sock: socket.socket, frame: Frame, *, busy_polls: bool) -> None:
        super().__init__(busy_polls=busy_polls)
        self._sock, self._frame = sock, frame
        self._received = bytearray(len(frame.message))
        self._view = memoryview(self._received)
        self._got = 0
        self._unsent = b""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        set_waiting(sock, busy_polls=busy_polls)
        self.note_socket(sock)

    def round_trip_ns(self, number: int, due_ns: int) -> int:
        """Send and receive; data unsent at an earlier deadline goes first, and late replies are read first."""
        self._frame.set_number(number)
        began_ns = time.monotonic_ns()
        ended_ns = self._reply_ns(number, due_ns) if self._send_message(due_ns) else 0
        return ended_ns - began_ns if ended_ns else LOST

    def pause(self, due_ns: int) -> None:
        """Poll during the pause too, if the probe busy-polls; late data stays for the next probe to read."""
        if not self.busy_polls:
            super().pause(due_ns)
        clock, peek, room = time.monotonic_ns, self._sock.recv_into, bytearray(1)
        while clock() < due_ns:
            try:
                peek(room, 1, socket.MSG_PEEK)
            except OSError:  # nothing there; an error comes again
                continue

    def _send_message(self, due_ns: int) -> bool:
        """Send the message after earlier unsent data; return whether all was sent."""
        unsent = memoryview(self._unsent + self._frame.message if self._unsent else self._frame.message)
        while unsent:
            try:
                unsent = unsent[self._sock.send(unsent) :]
            except BlockingIOError:
                if time.monotonic_ns() > due_ns:
                    break
        self._unsent = bytes(unsent)
        return not unsent

    def _reply_ns(self, number: int, due_ns: int) -> int:
        """Return when the reply was complete, 0 if it was not in time."""
        take, view, clock = self._sock.recv_into, self._view, time.monotonic_ns
        while True:
            try:
                got = take(view[self._got :])
            except BlockingIOError:
                if clock() > due_ns:
                    return 0
                continue
            ended_ns = clock()
            if not got:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self._got = (self._got + got) % len(view)
            if ended_ns > due_ns:
                return 0
            if not self._got and self._frame.is_reply(view, number):
                return ended_ns

    def close(self) -> None:
        """Reset the connection."""
        self._sock.close()


class ConnectProbe(Probe):
    """Probe of TCP's handshake at the client: how long connect(2) takes. There is no payload."""

    kind = "handshake"

    def __init__(self, source: str, address: str, port: int, *, busy_polls: bool) -> None:
        super().__init__(busy_polls=busy_polls)
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._source, self._to = source, (address, port)

    def round_trip_ns(self, number: int, due_ns: int) -> int:  # noqa: ARG002 - which has no place in a handshake
        """Measure one handshake, and reset its connection."""
        clock = time.monotonic_ns
        with socket.socket(self._family, socket.SOCK_STREAM) as sock:
            set_waiting(sock, busy_polls=self.busy_polls)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            if self._source:
                sock.bind((self._source, 0))
            began_ns = clock()
            while (code := sock.connect_ex(self._to)) in _UNDER_WAY:
                if clock() > due_ns:
                    return LOST
            ended_ns = clock()
            if code not in _ESTABLISHED:
                raise OSError(code, os.strerror(code))
            self.note_socket(sock)
            return ended_ns - began_ns if ended_ns <= due_ns else LOST

    def close(self) -> None:
        """Do nothing, as no socket stays open."""
