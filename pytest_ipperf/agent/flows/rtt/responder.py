"""Reflectors of probes at the far end, in a thread; on request with the times of arrival and departure.

The near end says with its first probe whether this end should busy-poll. It does so until nothing has arrived for a
deadline, and then sleeps until the next probe.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from threading import Thread

from pytest_ipperf.agent.flows.rtt.frame import HEAD, wants_busy_poll
from pytest_ipperf.agent.flows.rtt.probe import set_waiting
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.agent.sockets.timestamping import CONTROL_BYTES, TxTimestamps, rx_timestamp_ns
from pytest_ipperf.core.portable.errors import LabError

_BUFFER_BYTES = 1 << 20
_POLLS = range(1000)
_KEPT_STAMPS = 64
_BACKLOG = 1024


class Reflector(ABC):
    """Reflector on a free port of `ports`, for probes of that size and of one run, from construction until closed.

    `answered` counts the probes sent back. Once it is closed, `cpu_s` is its thread's processor time, which should be
    about `busy_polled_s`, the time that it has busy-polled.
    """

    kind: socket.SocketKind

    def __init__(
        self, address: str, ports: tuple[int, int], *, ident: int, payload_bytes: int, deadline_s: float
    ) -> None:
        self.port = free_port([address], *ports, random.Random())  # noqa: S311 - not a secret
        self.answered = 0
        self.cpu_s = 0.0
        self.busy_polled_s = 0.0
        self._ident, self._size, self._deadline_ns = ident & 0xFFFFFFFF, payload_bytes, round(deadline_s * 1e9)
        self._open = True
        self._sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, self.kind)
        self._connection = self._sock
        try:
            self._listen(address)
        except OSError as error:
            self._sock.close()
            raise LabError(f"no probes can be reflected on {address} port {self.port}: {error.strerror}") from error
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the reflector; may be called twice."""
        self._open = False
        for sock in (self._sock, self._connection):
            with contextlib.suppress(OSError):  # the waiting thread wakes, whether the socket is connected or not
                sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()

    def _run(self) -> None:
        self._serve()
        self.cpu_s = time.thread_time()

    def _listen(self, address: str) -> None:
        set_waiting(self._sock, busy_polls=False)
        self._sock.bind((address, self.port))

    @abstractmethod
    def _serve(self) -> None:
        """Serve until it is closed."""

    @contextlib.contextmanager
    def _busy_polling(self) -> Iterator[None]:
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.busy_polled_s += time.monotonic() - began_s

    def _is_probe(self, message: bytearray) -> bool:
        """Return whether a message is a probe of this run."""
        return bool(HEAD.unpack_from(message)[0] == self._ident)


class DatagramReflector(Reflector):
    """Reflector of UDP datagrams, only to the first sender."""

    kind = socket.SOCK_DGRAM

    def _listen(self, address: str) -> None:
        super()._listen(address)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)

    def _serve(self) -> None:
        message, prober = bytearray(self._size), None
        while self._open:
            with contextlib.suppress(OSError):  # nothing there, or the near end has gone
                size, sender = self._sock.recvfrom_into(message)
                if size == self._size and self._is_probe(message):
                    if not prober:
                        self._sock.connect(sender)
                        prober = sender
                    self._sock.send(message)
                    self.answered += 1
                    if wants_busy_poll(message):
                        with self._busy_polling():
                            self._busy_poll(message)
            self._sock.setblocking(True)  # noqa: FBT003 - that is how it is called

    def _busy_poll(self, message: bytearray) -> None:
        take, send, size, clock = self._sock.recv_into, self._sock.send, self._size, time.monotonic_ns
        self._sock.setblocking(False)  # noqa: FBT003
        due_ns = clock() + self._deadline_ns
        while self._open and clock() < due_ns:
            for _ in _POLLS:
                try:
                    got = take(message)
                except BlockingIOError:
                    continue
                if got != size:
                    break
                send(message)
                self.answered += 1
                due_ns = clock() + self._deadline_ns


class TimestampingReflector(DatagramReflector):
    """Reflector whose replies report when the probe named by the near end arrived, and when its reply left."""

    def _listen(self, address: str) -> None:
        super()._listen(address)
        self._tx_timestamps = TxTimestamps(self._sock)
        self._came: dict[int, int] = {}
        self._stamps: dict[int, tuple[int, int]] = {}

    def _serve(self) -> None:
        message, prober = bytearray(self._size), None
        while self._open:
            with contextlib.suppress(OSError):
                size, messages, _, sender = self._sock.recvmsg_into([message], CONTROL_BYTES)
                if size == self._size and self._is_probe(message):
                    if not prober:
                        self._sock.connect(sender)
                        prober = sender
                    self._reply(message, rx_timestamp_ns(messages))

    def _reply(self, message: bytearray, came_ns: int) -> None:
        for number, left_ns in self._tx_timestamps.read():
            self._stamps[number] = (self._came.pop(number, 0), left_ns)
            self._stamps.pop(number - _KEPT_STAMPS, None)
        ident, number, way, of, _, _ = HEAD.unpack_from(message)
        HEAD.pack_into(message, 0, ident, number, way, of, *self._stamps.get(of, (0, 0)))
        self._came[number] = came_ns
        self._came.pop(number - _KEPT_STAMPS, None)
        self._tx_timestamps.send(number, message)
        self.answered += 1


class MessageReflector(Reflector):
    """Reflector of messages on TCP connections, one connection after another."""

    kind = socket.SOCK_STREAM

    def _listen(self, address: str) -> None:
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        super()._listen(address)
        self._sock.listen(_BACKLOG)

    def _serve(self) -> None:
        while self._open:
            with contextlib.suppress(OSError):
                sock, _ = self._sock.accept()
                with sock:
                    self._connection = sock
                    self._serve_connection(sock)

    def _serve_connection(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        set_waiting(sock, busy_polls=False)
        message = bytearray(self._size)
        view = memoryview(message)
        if self._receive_message(sock, view, busy_polling=False) and self._is_probe(message):
            busy_polling = wants_busy_poll(message)
            self._send_message(sock, view)
            with self._busy_polling() if busy_polling else contextlib.nullcontext():
                while self._receive_message(sock, view, busy_polling=busy_polling):
                    self._send_message(sock, view)

    def _receive_message(self, sock: socket.socket, view: memoryview, *, busy_polling: bool) -> bool:
        """Receive one message; return whether it is complete."""
        clock, take = time.monotonic_ns, sock.recv_into
        sock.setblocking(not busy_polling)
        due_ns = clock() + self._deadline_ns
        while view and self._open:
            try:
                got = take(view)
            except BlockingIOError:
                if busy_polling and clock() > due_ns:
                    sock.setblocking(True)  # noqa: FBT003
                continue
            if not got:
                return False
            view = view[got:]
        return self._open

    def _send_message(self, sock: socket.socket, view: memoryview) -> None:
        while view and self._open:
            with contextlib.suppress(BlockingIOError):
                view = view[sock.send(view) :]
        self.answered += 1


class ConnectionSink(MessageReflector):
    """Sink that holds each accepted connection until the near end, which knows then that it is established, resets it.

    If this end closed it at once, it could be left in TIME_WAIT for a minute.
    """

    def _serve_connection(self, sock: socket.socket) -> None:
        self.answered += 1
        set_waiting(sock, busy_polls=False)
        sock.recv(1)
