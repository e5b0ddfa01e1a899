"""TCP servers whose conversations a test scripts, and listeners that never answer."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

Talk = Callable[[socket.socket, int], object]


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class StreamServer:
    """A TCP server with a thread for each connection.

    `talk` is called with the connection and its number, counted from 0; an OSError ends it. A connection stays open
    until `talk` or the server closes it. `peers` has the address of each client; `open` and `peak` count the
    connections whose `talk` has not returned.
    """

    def __init__(self, address: str, talk: Talk, *, backlog: int = 128) -> None:
        self._talk = talk
        self.peers: list[tuple[Any, ...]] = []
        self.open = self.peak = 0
        self._lock = threading.Lock()
        self._held: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._sock = socket.create_server((address, 0), family=family_of(address), backlog=backlog)
        self.port: int = self._sock.getsockname()[1]

    @property
    def accepted(self) -> int:
        return len(self.peers)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._threads[0].join(10)
        for conn in self._held:
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()
        for conn in self._held:
            conn.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                conn, peer = self._sock.accept()
                with self._lock:
                    self._held.append(conn)
                    self.peers.append(peer)
                    self.open += 1
                    self.peak = max(self.peak, self.open)
                self._start(self._serve, conn, self.accepted - 1)

    def _serve(self, conn: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):
            self._talk(conn, number)
        with self._lock:
            self.open -= 1


def wait_for_client(conn: socket.socket, _: int = 0) -> None:
    """Send nothing until the client closes or the test ends."""
    while conn.recv(65536):
        pass


def reset(conn: socket.socket) -> None:
    """Close a connection by RST."""
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.close()


@contextlib.contextmanager
def silent_listener(address: str = "127.0.0.1", backlog: int = 100) -> Iterator[int]:
    """Yield the port of a listener that never accepts; the kernel completes as many handshakes as `backlog` allows."""
    with socket.create_server((address, 0), family=family_of(address), backlog=backlog) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def refusing_port(address: str = "127.0.0.1") -> Iterator[int]:
    """Yield a TCP port that refuses connections: it is bound, so nobody else listens on it."""
    with socket.socket(family_of(address)) as bound:
        bound.bind((address, 0))
        yield bound.getsockname()[1]
