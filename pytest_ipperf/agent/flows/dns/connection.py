"""Connection for one query by TCP."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_ipperf.agent.flows.dns.query import Query
from pytest_ipperf.agent.sockets.target import connect_kind, failure_kind

if TYPE_CHECKING:
    from pytest_ipperf.agent.flows.dns.load import Load

_READ_BYTES = 1 << 16


def framed(ident: int, message: bytes) -> bytes:
    """Return a message without identifier as TCP carries it: its length before it (RFC 1035, section 4.2.2)."""
    return (len(message) + 2).to_bytes(2, "big") + ident.to_bytes(2, "big") + message


class Connection:
    """Connection that is opened for a query, and closed with its answer; `ended` is called with it then."""

    def __init__(self, load: Load, query: Query, ended: Callable[[Connection], object]) -> None:
        self._load, self.query, self._ended = load, query, ended
        self._connected, self._unsent, self._seen = False, framed(query.ident, query.message), b""
        self._sock: socket.socket | None = None
        try:
            self._sock = load.connecting(self)
        except OSError as error:
            self._fail(f"connect {failure_kind(error)}")

    def handle(self, sock: socket.socket, event: int) -> None:
        """Send the query once connected, then receive the answer."""
        del event
        try:
            if not self._connected:
                if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    self._fail(f"connect {connect_kind(code)}")
                    return
                self._connected = True
                self._load.note_path(sock)
            if self._unsent:
                self._unsent = self._unsent[sock.send(self._unsent) :]
                if not self._unsent:
                    self._load.rewatch(sock, select.EPOLLIN)
                return
            data = sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(f"{'talk' if self._connected else 'connect'} {failure_kind(error)}")
            return
        if not data:
            self._fail("talk closed")
            return
        self._seen += data
        if len(self._seen) >= 2 and len(self._seen) >= 2 + int.from_bytes(self._seen[:2], "big"):
            self._answered(self._seen[2:])

    def _answered(self, response: bytes) -> None:
        query = self.query
        if response[:2] != query.ident.to_bytes(2, "big"):
            self._fail("protocol: another identifier")
            return
        trouble = self._load.questions.trouble(response, query.message)
        self.close()
        if trouble:
            self._load.fail(query, f"{trouble} by TCP" if trouble == "truncated" else trouble)
        else:
            self._load.finish(query, len(response))

    def _fail(self, kind: str) -> None:
        self.close()
        self._load.fail(self.query, kind, pause=kind.startswith("connect"))

    def close(self) -> None:
        """Close the connection; may be called twice."""
        sock, self._sock = self._sock, None
        self._ended(self)
        if sock is not None:
            self._load.unwatch(sock)


class ConnectionClient:
    """Client with a connection for each query."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._open: dict[Query, Connection] = {}

    def ask(self, query: Query) -> None:
        """Open a connection for the query."""
        connection = Connection(self._load, query, lambda each: self._open.pop(each.query, None))
        if not query.over:
            self._open[query] = connection

    def flush(self) -> None:
        """Do nothing: a connection sends its query when it is open."""

    def forget(self, query: Query) -> None:
        """Close the connection of a query."""
        if connection := self._open.get(query):
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._open.values()):
            connection.close()
