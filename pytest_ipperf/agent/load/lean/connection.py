"""What the lean client knows of each of its N while they live, and how it watches their sockets.

TCP sockets are watched for edges and not for levels, as a connection then costs one call to `epoll_ctl` in place of
three.
"""

from __future__ import annotations

import math
import select
import socket

from pytest_ipperf.protocols.base import Conversation

RESOLVING, CONNECTING, TALKING, DATA_CONNECTING, DATA_MOVING, ASKING, DONE = range(7)
"""What a descriptor is for, ASKING a conversation by datagrams. A burst has a step for each but the last."""

READ_BYTES = 65536
TURN = range(16)
"""After so many full reads the others have their turn."""
BROKEN = select.EPOLLERR | select.EPOLLHUP
ENDED = BROKEN | select.EPOLLRDHUP
READABLE = select.EPOLLIN | ENDED
EDGES = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
NOTHING = memoryview(b"")


class Connection:
    """One of the N; times are `perf_counter` seconds, 0.0 where a phase was not reached; `late` lasts, or is nan.

    `opened` is when it was to be opened, which was done `behind` that; `due` is when it has failed.
    `query` is the datagram that is repeated while it has no answer, `data` the data connection, as long as it lives.
    """

    __slots__ = (
        "behind", "connected", "conversation", "data", "done", "due", "failure", "first", "late", "opened", "peer",
        "query", "resolved", "retries", "sock", "state", "unsent",
    )  # fmt: skip

    def __init__(self, conversation: Conversation, query: bytes) -> None:
        self.conversation = conversation
        self.query = query
        self.state = RESOLVING
        self.retries = 0
        self.failure = ""
        self.peer = ""
        self.opened = self.resolved = self.connected = self.first = self.done = self.behind = 0.0
        self.due: float
        self.late = math.nan
        self.sock: socket.socket
        self.unsent = NOTHING
        self.data: DataConnection | None = None

    @property
    def content_bytes(self) -> int:
        """Return how much content its conversation has moved."""
        return self.conversation.content_bytes

    @property
    def phase(self) -> str:
        """What it is about, as failures name it."""
        if self.state == RESOLVING:
            return "dns"
        if self.state == CONNECTING:
            return "connect"
        return "data" if self.data else "talk"


class DataConnection:
    """The second connection that a conversation has asked for."""

    __slots__ = ("owner", "sock", "state")

    def __init__(self, owner: Connection, sock: socket.socket) -> None:
        self.owner = owner
        self.sock = sock
        self.state = DATA_CONNECTING
