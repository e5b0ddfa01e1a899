"""Burst of conversations by datagrams, each on a socket of its own: a look-up is the whole transaction (DNS)."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from typing import Any

from pytest_ipperf.agent.load.lean.connection import ASKING, READ_BYTES, Connection
from pytest_ipperf.agent.load.lean.epoll_client import Burst
from pytest_ipperf.agent.sockets.receive_timestamps import SO_TIMESTAMPNS, TIMESTAMP_SPACE
from pytest_ipperf.agent.sockets.target import bare_socket, failure_kind


class DatagramBurst(Burst):
    """Burst without phases before the answer; an unanswered query is repeated as a look-up's is.

    The target has no resolver: its name is the server's address.
    """

    def begin(self, connection: Connection) -> None:
        """Send the query."""
        connection.resolved = connection.connected = connection.opened
        connection.peer = self.target.name
        connection.state = ASKING
        connection.query = connection.conversation.first_bytes()
        self.count_started()
        try:
            sock = connection.sock = bare_socket(self.target, socket.SOCK_DGRAM)
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            sock.connect((connection.peer, self.target.port))
            sock.send(connection.query)
        except OSError as error:
            self.fail(connection, f"talk {failure_kind(error)}")
            return
        self.watch(sock, connection, select.EPOLLIN)

    def steps(self) -> Sequence[Callable[[Any, int], None]]:
        """Return the steps of a burst and one for the answer."""
        return *super().steps(), self._answered

    def _answered(self, connection: Connection, _: int) -> None:
        try:
            data, stamps, _, _ = connection.sock.recvmsg(READ_BYTES, TIMESTAMP_SPACE)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(connection, f"talk {failure_kind(error)}")
            return
        now = self.clock()
        reply = connection.conversation.receive_data(data)
        if connection.conversation.finished:  # any other datagram is ignored
            connection.first = now
        self.advance(connection, reply, now, stamps)
