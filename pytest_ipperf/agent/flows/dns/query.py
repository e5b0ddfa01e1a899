"""Query of a load, from its instant to its answer."""

from __future__ import annotations

import socket
from typing import Protocol


class Query:
    """Query that `client` has asked.

    `intended_s` is the instant at which it had to be asked and `sent_s` the one at which it was; `message` lacks the
    identifier, `ident`. `over` says that it has been answered or has failed.
    """

    __slots__ = ("client", "ident", "intended_s", "message", "over", "sent_s")

    def __init__(self, client: Client, message: bytes, intended_s: float, sent_s: float) -> None:
        self.client, self.message = client, message
        self.intended_s, self.sent_s = intended_s, sent_s
        self.ident = 0
        self.over = False


class Client(Protocol):
    """Client of a load, which asks with an address and port of its own, or with a connection for each query."""

    def ask(self, query: Query) -> None:
        """Send a query, or begin to."""

    def flush(self) -> None:
        """Send what `ask` has left."""

    def forget(self, query: Query) -> None:
        """Release a query that has not been answered in time."""

    def close(self) -> None:
        """Close all sockets."""


class Socket(Protocol):
    """Owner of a socket in the loop."""

    def handle(self, sock: socket.socket, event: int) -> None:
        """Handle an event of epoll."""
