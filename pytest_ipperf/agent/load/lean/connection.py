"""Connections of the lean client: their state and timestamps, and the epoll events of their sockets.

TCP sockets are watched edge-triggered, as a connection then costs one call of `epoll_ctl` instead of three.
"""

from __future__ import annotations

import math
import select
import socket

from pytest_ipperf.agent.sockets.receive_timestamps import Stamps
from pytest_ipperf.protocols.base import Conversation

RESOLVING, CONNECTING, CONVERSING, DATA_CONNECTING, DATA_MOVING, ASKING, DONE = range(7)
"""States of a descriptor, ASKING for a conversation by datagrams. A burst has a step for each but the last."""

READ_BYTES = 65536
TURN = range(16)
"""Number of full reads after which other descriptors have their turn."""
BROKEN = select.EPOLLERR | select.EPOLLHUP
ENDED = BROKEN | select.EPOLLRDHUP
READABLE = select.EPOLLIN | ENDED
EDGES = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
NOTHING = memoryview(b"")


class Connection:
    """One of the N connections; times are `perf_counter` seconds, 0.0 where a phase was not reached.

    `opened` is the intended time of opening, which happened `start_delay_s` later; `due` is its deadline. `rx_delay_s`
    is a duration, or nan; the burst finds it at its end, from the `stamps` of the message that completed the
    connection. `query` is the datagram that is repeated while unanswered, `data` the data connection, as long as it is
    open.
    """

    __slots__ = (
        "connected", "conversation", "data", "done", "due", "failure", "first", "opened", "peer", "query",
        "resolved", "retries", "rx_delay_s", "sock", "stamps", "start_delay_s", "state", "unsent",
    )  # fmt: skip

    def __init__(self, conversation: Conversation, query: bytes) -> None:
        self.conversation = conversation
        self.query = query
        self.state = RESOLVING
        self.retries = 0
        self.failure = ""
        self.peer = ""
        self.opened = self.resolved = self.connected = self.first = self.done = self.start_delay_s = 0.0
        self.due: float
        self.rx_delay_s = math.nan
        self.sock: socket.SocketType
        self.stamps: Stamps = ()
        self.unsent = NOTHING
        self.data: DataConnection | None = None

    @property
    def content_bytes(self) -> int:
        """Return the bytes of content that its conversation has moved."""
        return self.conversation.content_bytes

    @property
    def phase(self) -> str:
        """Return the phase of the connection, as failures name it."""
        if self.state == RESOLVING:
            return "dns"
        if self.state == CONNECTING:
            return "connect"
        return "data" if self.data else "talk"


class DataConnection:
    """Second connection, which a conversation has asked for."""

    __slots__ = ("owner", "sock", "state")

    def __init__(self, owner: Connection, sock: socket.SocketType) -> None:
        self.owner = owner
        self.sock = sock
        self.state = DATA_CONNECTING
