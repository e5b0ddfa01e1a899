"""UDP servers whose replies a test scripts, and sockets that never answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from tests.support.servers.tcp import family_of

Answer = Callable[[bytes, int], Iterable[bytes]]


class DatagramServer:
    """A UDP server that sends what `answer` returns for a query and its number, counted from 0.

    `heard` has the queries, `peers` the address of each client. A test may replace `answer`.
    """

    def __init__(self, address: str, answer: Answer) -> None:
        self.answer = answer
        self.heard: list[bytes] = []
        self.peers: list[tuple[Any, ...]] = []
        self._sock = socket.socket(family_of(address), socket.SOCK_DGRAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._sock.bind((address, 0))
        self._sock.settimeout(0.05)
        self.port: int = self._sock.getsockname()[1]
        self._ended = False
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join(10)
        self._sock.close()
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while not self._ended:
            with contextlib.suppress(TimeoutError):
                query, peer = self._sock.recvfrom(4096)
                self.heard.append(query)
                self.peers.append(peer)
                for reply in self.answer(query, len(self.heard) - 1):
                    self._sock.sendto(reply, peer)


@contextlib.contextmanager
def silent_socket(address: str = "127.0.0.1", timeout_s: float | None = 10.0) -> Iterator[socket.socket]:
    """Yield a UDP socket that answers nothing; its queue holds the queries."""
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as sock:
        sock.bind((address, 0))
        sock.settimeout(timeout_s)
        yield sock


@contextlib.contextmanager
def refusing_datagrams(address: str = "127.0.0.1") -> Iterator[int]:
    """Yield a UDP port that refuses queries: the socket that has it, so that no client gets it, is its only client."""
    with silent_socket(address) as sock:
        sock.connect(sock.getsockname())
        yield sock.getsockname()[1]
