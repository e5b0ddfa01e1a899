"""Client of a load by TCP with one connection, in which queries are pipelined (RFC 7766, section 6.2.1.1)."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

from pytest_ipperf.agent.flows.dns.connection import framed
from pytest_ipperf.agent.flows.dns.query import Query
from pytest_ipperf.agent.sockets.target import connect_kind, failure_kind

if TYPE_CHECKING:
    from pytest_ipperf.agent.flows.dns.load import Load

_IDENTS = 1 << 16
_READ_BYTES = 1 << 18


class StreamClient:
    """Client with a connection that it keeps, and opens again when the server has closed it (RFC 7766, section 6.2.4).

    Answers may come in any order (section 7). Queries on a connection that ends without their answers have failed.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._sock: socket.socket | None = None
        self._connected = self._blocked = False
        self._next = 0
        self._waiting: dict[int, Query] = {}
        self._unsent: list[bytes] = []
        self._seen = b""

    def ask(self, query: Query) -> None:
        """Add a query to those that `flush` sends, and connect if there is no connection."""
        while self._next in self._waiting:
            self._next = (self._next + 1) % _IDENTS
        query.ident = self._next
        self._next = (self._next + 1) % _IDENTS
        self._waiting[query.ident] = query
        self._unsent.append(framed(query.ident, query.message))
        if self._sock is None:
            self._connect()

    def _connect(self) -> None:
        try:
            self._sock = self._load.connecting(self)
        except OSError as error:
            self._end(f"connect {failure_kind(error)}")

    def flush(self) -> None:
        """Send all queries that have been asked, as far as the connection takes them."""
        if not self._unsent or not self._connected or self._sock is None:
            return
        data = b"".join(self._unsent)
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._end(f"talk {failure_kind(error)}")
            return
        rest = data[sent:]
        self._unsent = [rest] if rest else []
        if bool(rest) != self._blocked:
            self._blocked = bool(rest)
            self._load.rewatch(self._sock, select.EPOLLIN | (select.EPOLLOUT if rest else 0))

    def handle(self, sock: socket.socket, event: int) -> None:
        """Connect, send and receive."""
        if not self._connected:
            if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._end(f"connect {connect_kind(code)}")
                return
            self._connected = True
            self._load.note_path(sock)
            self._load.rewatch(sock, select.EPOLLIN)
        elif event & ~select.EPOLLOUT:
            self._receive(sock)
        self.flush()

    def _receive(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(f"talk {failure_kind(error)}")
            return
        if not data:
            self._end("talk closed")
            return
        seen, at = self._seen + data, 0
        while len(seen) - at >= 2:
            end = at + 2 + int.from_bytes(seen[at : at + 2], "big")
            if end > len(seen):
                break
            self._answered(seen[at + 2 : end])
            at = end
        self._seen = seen[at:]

    def _answered(self, response: bytes) -> None:
        load = self._load
        query = self._waiting.pop(int.from_bytes(response[:2], "big"), None)
        if query is None:
            load.tally.unexpected += 1
            return
        trouble = load.questions.trouble(response, query.message)
        if trouble:
            load.fail(query, f"{trouble} by TCP" if trouble == "truncated" else trouble)
        else:
            load.finish(query, len(response))

    def _end(self, kind: str) -> None:
        """Close the connection, on which all waiting queries have failed."""
        self.close()
        waiting, self._waiting = self._waiting, {}
        for query in waiting.values():
            self._load.fail(query, kind, pause=True)

    def forget(self, query: Query) -> None:
        """Give a query up; its identifier is used again after all others."""
        if self._waiting.get(query.ident) is query:
            del self._waiting[query.ident]

    def close(self) -> None:
        """Close the connection."""
        sock, self._sock = self._sock, None
        self._connected = self._blocked = False
        self._unsent, self._seen = [], b""
        if sock is not None:
            self._load.unwatch(sock)
