"""Probes by TCP: a message each way on one connection, or a connection each."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time

from pytest_ipperf.agent.flows.rtt.frame import Frame
from pytest_ipperf.agent.flows.rtt.probe import LOST, Probe, patient

_AT_ONCE = struct.pack("ii", 1, 0)
"""For SO_LINGER: whoever closes then resets, and neither end has to remember the connection for a minute."""
_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY)
_ESTABLISHED = (0, errno.EISCONN)


class Messages(Probe):
    """On a connection that is established and sends at once (TCP_NODELAY)."""

    kind = "message"
    connections = False

    def __init__(self, sock: socket.socket, frame: Frame, *, looks: bool) -> None:
        super().__init__(looks=looks)
        self._sock, self._frame = sock, frame
        self._heard = bytearray(len(frame.message))
        self._view = memoryview(self._heard)
        self._got = 0
        self._owed = b""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        patient(sock, looks=looks)
        self.seen(sock)

    def ask(self, number: int, due_ns: int) -> int:
        """What is not sent by then is sent before the next one, and what comes too late is read before its reply."""
        self._frame.number(number)
        began_ns = time.monotonic_ns()
        ended_ns = self._answer_ns(number, due_ns) if self._said(due_ns) else 0
        return ended_ns - began_ns if ended_ns else LOST

    def pause(self, due_ns: int) -> None:
        """Who looks all the time, does so then too; what comes now is late, and stays for the next to read."""
        if not self.looks:
            super().pause(due_ns)
        clock, look, room = time.monotonic_ns, self._sock.recv_into, bytearray(1)
        while clock() < due_ns:
            try:
                look(room, 1, socket.MSG_PEEK)
            except OSError:  # nothing there; an error comes again
                continue

    def _said(self, due_ns: int) -> bool:
        """Whether all of it is sent, and all that was owed."""
        said = memoryview(self._owed + self._frame.message if self._owed else self._frame.message)
        while said:
            try:
                said = said[self._sock.send(said) :]
            except BlockingIOError:
                if time.monotonic_ns() > due_ns:
                    break
        self._owed = bytes(said)
        return not said

    def _answer_ns(self, number: int, due_ns: int) -> int:
        """When its reply was there, 0 when it is not."""
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
            if not self._got and self._frame.answered(view, number):
                return ended_ns

    def close(self) -> None:
        """Resets it."""
        self._sock.close()


class Openings(Probe):
    """TCP's handshake as the client sees it: how long connect(2) takes. There is no payload."""

    kind = "handshake"

    def __init__(self, source: str, address: str, port: int, *, looks: bool) -> None:
        super().__init__(looks=looks)
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._source, self._to = source, (address, port)

    def ask(self, number: int, due_ns: int) -> int:  # noqa: ARG002 - which has no place in a handshake
        """Resets what it has opened."""
        clock = time.monotonic_ns
        with socket.socket(self._family, socket.SOCK_STREAM) as sock:
            patient(sock, looks=self.looks)
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
            self.seen(sock)
            return ended_ns - began_ns if ended_ns <= due_ns else LOST

    def close(self) -> None:
        """None of them stays open."""
