"""Data connections of the lean client: second connections that a conversation asks for (FTP, RFC 959, section 3.2)."""

from __future__ import annotations

import errno
import socket

from pytest_ipperf.agent.load.lean.connection import (
    BROKEN,
    DATA_MOVING,
    DONE,
    EDGES,
    ENDED,
    READ_BYTES,
    READABLE,
    TURN,
    Connection,
    DataConnection,
)
from pytest_ipperf.agent.load.lean.loop import Loop
from pytest_ipperf.agent.sockets.target import bare_socket, connect_kind, failure_kind

_LAST_PORT = 65535


class DataConnections:
    """Data connections of one burst, each from the arm's source to the peer of its control connection."""

    def __init__(self, burst: Loop) -> None:
        self._burst = burst

    def open(self, connection: Connection) -> None:
        """Open a connection to the port that the conversation has named; it may name another later."""
        conversation = connection.conversation
        port, conversation.data_port = conversation.data_port, 0
        if not 0 < port <= _LAST_PORT:  # a wrong reply must not break the client
            self._burst.fail(connection, f"protocol: data port {port}")
            return
        try:
            sock = bare_socket(self._burst.target, socket.SOCK_STREAM)
        except OSError as error:
            self._burst.fail(connection, f"data {failure_kind(error)}")
            return
        data = connection.data = DataConnection(connection, sock)
        try:
            code = sock.connect_ex((connection.peer, port))
        except OSError as error:
            code = error.errno or errno.EIO
        if code not in (0, errno.EINPROGRESS):
            self._burst.fail(connection, f"data {connect_kind(code)}")
            return
        self._burst.watch(sock, data)

    def opened(self, data: DataConnection, event: int) -> None:
        """Continue once a data connection is established or has failed."""
        connection = data.owner
        if event & BROKEN and (code := data.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
            self._burst.fail(connection, f"data {failure_kind(OSError(code, ''))}")
            return
        data.state = DATA_MOVING
        self._burst.record_endpoint(data.sock)
        now = self._burst.clock()
        self._burst.advance(connection, connection.conversation.data_connection_opened(), now)
        if data.state == DATA_MOVING:  # data that has come already makes no further edge
            self.moved(data, event)

    def moved(self, data: DataConnection, event: int) -> None:
        """Read from an open data connection."""
        connection = data.owner
        if not event & READABLE:
            return
        for _ in TURN:
            try:
                received = data.sock.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._burst.fail(connection, f"data {failure_kind(error)}")
                return
            now = self._burst.clock()
            if not received:
                self.end(connection)
            self._burst.advance(connection, connection.conversation.receive_from_data_connection(received), now)
            # After a short read the socket is empty, and later data makes a new edge; but an end makes none.
            if data.state == DONE or (len(received) < READ_BYTES and not event & ENDED):
                return
        self._burst.epoll.modify(data.sock.fileno(), EDGES)  # remaining data makes another edge

    def end(self, connection: Connection) -> None:
        """Close the data connection, if there is one."""
        data, connection.data = connection.data, None
        if data is not None:
            data.state = DONE
            self._burst.to_close.append(data.sock)
