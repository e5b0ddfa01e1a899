"""Interface of a burst's epoll loop, as its data connections and its timers use it."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Protocol

from pytest_ipperf.agent.load.lean.connection import EDGES, Connection, DataConnection
from pytest_ipperf.agent.sockets.receive_timestamps import Stamps
from pytest_ipperf.agent.sockets.target import Target


class Loop(Protocol):
    """Attributes and callbacks of a `Burst` that its parts may use."""

    target: Target
    connections: list[Connection]
    epoll: select.epoll
    clock: Callable[[], float]
    to_close: list[socket.SocketType]
    """Sockets to close when the current batch of events is done."""
    began: float
    dns_retries: int

    def begin(self, connection: Connection) -> None:
        """Open the first socket of a connection."""

    def watch(self, sock: socket.SocketType, who: Connection | DataConnection, events: int = EDGES) -> None:
        """Register a socket with the epoll set until it is closed."""

    def record_endpoint(self, sock: socket.SocketType) -> None:
        """Record the local address and the family of a connected socket."""

    def advance(self, connection: Connection, reply: bytes, now: float, stamps: Stamps = ()) -> None:
        """Do what the conversation asks for after it received something at `now`."""

    def fail(self, connection: Connection, failure: str) -> None:
        """End a connection as failed."""
