"""Client of a load by UDP: one socket, with up to 65536 queries outstanding."""

from __future__ import annotations

import random
import socket
from collections import deque
from typing import TYPE_CHECKING

from pytest_ipperf.agent.flows.dns.connection import ConnectionClient
from pytest_ipperf.agent.flows.dns.query import Query
from pytest_ipperf.agent.flows.dns.questions import TRUNCATED
from pytest_ipperf.agent.sockets.buffers import set_buffer_size

if TYPE_CHECKING:
    from pytest_ipperf.agent.flows.dns.load import Load

IDENTS = 1 << 16
_READ_BYTES = 1 << 16
_TURN = 64
_BUFFER_BYTES = 1 << 23


class DatagramClient:
    """Client with one connected socket; it asks again by TCP for an answer that did not fit (RFC 7766, section 5)."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._sock = load.open(socket.SOCK_DGRAM)
        try:
            set_buffer_size(self._sock, socket.SO_RCVBUF, _BUFFER_BYTES)
            self._sock.connect(load.server)
        except BaseException:
            self._sock.close()
            raise
        # An identifier is used again as late as possible, and not at all while an answer with it may still come.
        first = random.randrange(IDENTS)  # noqa: S311 - not a secret
        self._free = deque((*range(first, IDENTS), *range(first)))
        self._given_up: deque[int] = deque()
        self._waiting: dict[int, Query] = {}
        self._again = ConnectionClient(load)
        load.watch(self._sock, self)

    def ask(self, query: Query) -> None:
        """Send a query; one that the host refuses to send is lost, and counted as such."""
        if not self._free and self._given_up:
            self._free.append(self._given_up.popleft())
        if not self._free:
            self._load.fail(query, "not sent: 65536 are outstanding", pause=True)
            return
        ident = query.ident = self._free.popleft()
        self._waiting[ident] = query
        message = ident.to_bytes(2, "big") + query.message
        try:
            self._sock.send(message)
        except ConnectionRefusedError:  # of an earlier one
            self._load.tally.refused += 1
            self._send_again(message)
        except OSError:
            self._send_again(message)

    def _send_again(self, message: bytes) -> None:
        try:
            self._sock.send(message)
        except OSError:
            self._load.tally.refused += 1

    def flush(self) -> None:
        """Do nothing: datagrams have been sent."""

    def handle(self, sock: socket.socket, event: int) -> None:
        """Receive answers."""
        del event
        load, receive, waiting = self._load, sock.recv, self._waiting
        for _ in range(_TURN):
            try:
                response = receive(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                load.tally.refused += 1
                continue
            query = waiting.pop(int.from_bytes(response[:2], "big"), None)
            if query is None:
                load.tally.unexpected += 1
                continue
            self._free.append(query.ident)
            trouble = load.questions.trouble(response, query.message)
            if not trouble:
                load.finish(query, len(response))
            elif trouble == TRUNCATED:
                load.tally.truncated += 1
                self._again.ask(query)
            else:
                load.fail(query, trouble)

    def forget(self, query: Query) -> None:
        """Give a query up, or the connection that asks for it again."""
        if self._waiting.get(query.ident) is query:
            del self._waiting[query.ident]
            self._given_up.append(query.ident)
        self._again.forget(query)

    def close(self) -> None:
        """Close the socket, and the connections of truncated answers."""
        self._again.close()
        self._load.unwatch(self._sock)
