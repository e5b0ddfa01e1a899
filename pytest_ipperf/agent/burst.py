"""A burst: N connections at once on one epoll loop, each timed through its phases.

Closed mode: every connection is opened as fast as the loop can, and its own clock starts when its first socket is
opened, so what a late start costs is not charged to it. The loop is bare `epoll` around sans-I/O conversations
because the instrument's own work per connection is part of every figure.

A closed burst is a queue in the client too: what waits for the loop to come round is in the figure, the more so the
larger N is and the faster the server.

Finished sessions stay open until the last one has its figure: N really are open at once, and a server's work on
closing sessions is in nobody's time.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from pytest_ipperf.core import dns
from pytest_ipperf.protocols.base import Conversation

PHASES = ("start", "dns", "connect", "first_byte", "total")
"""Columns of the packed samples, in seconds: the start since the burst began, the others since the start."""

_RETRY_S = (1.0, 2.0, 4.0)  # RFC 1035 leaves the schedule to the resolver; this is the usual stub's
_RESOLVING, _CONNECTING, _TALKING, _SENDING, _DONE = range(5)
_PHASE_OF = {_RESOLVING: "dns", _CONNECTING: "connect", _TALKING: "talk", _SENDING: "talk"}
_IP_BIND_ADDRESS_NO_PORT = 24
_SO_DOMAIN = 39
_UNBOUND = {"0.0.0.0", "::"}  # noqa: S104 - what a socket without an address calls itself, not a place to listen


@dataclass(frozen=True)
class Target:
    """Where a burst goes: all literal addresses, so that the arm's family cannot be left."""

    family: int
    resolver: tuple[str, int]
    name: str
    port: int
    source: str


class Connection:
    """One of the N; times are `perf_counter` seconds, 0.0 where a phase was not reached."""

    __slots__ = (
        "connected", "conversation", "done", "failure", "first", "opened", "peer", "query", "resolved",
        "retries", "sock", "state", "unsent",
    )  # fmt: skip

    def __init__(self, conversation: Conversation, query: bytes) -> None:
        self.conversation = conversation
        self.query = query
        self.state = _RESOLVING
        self.retries = 0
        self.failure = ""
        self.peer = ""
        self.resolved = self.connected = self.first = self.done = 0.0
        self.sock: socket.socket
        self.opened = 0.0
        self.unsent = memoryview(b"")


class Burst:
    """Runs N conversations against a target; `run()` returns when each has finished, failed or met the deadline."""

    def __init__(self, target: Target, conversations: list[Conversation], deadline_s: float, first_ident: int) -> None:
        self._target = target
        self._deadline_s = deadline_s
        self._rtype = dns.record_type(6 if target.family == socket.AF_INET6 else 4)
        self.connections = [
            Connection(talk, dns.query(target.name, self._rtype, (first_ident + index) & 0xFFFF))
            for index, talk in enumerate(conversations)
        ]
        self.sources: set[str] = set()
        self.families: set[int] = set()
        self.dns_retries = 0
        self.began = 0.0
        self._end = 0.0
        self._live = len(self.connections)
        self._by_fd: dict[int, Connection] = {}
        self._epoll = select.epoll()
        self._clock: Callable[[], float] = time.perf_counter

    def run(self) -> None:
        """Opens all, drives them to their ends, closes all."""
        try:
            self.began = self._clock()
            self._end = self.began + self._deadline_s
            for connection in self.connections:
                self._resolve(connection)
            self._drive()
        finally:
            self._close()

    # --- the phases -------------------------------------------------------------------------------------------------

    def _socket(self, connection: Connection, kind: int) -> socket.socket:
        sock = socket.socket(self._target.family, kind | socket.SOCK_NONBLOCK)
        connection.sock = sock
        if self._target.source:
            if kind == socket.SOCK_STREAM:
                # The port is then chosen when the peer is known, and need not differ from that of every connection
                # closed in the last minute: searching for such a one took milliseconds, and 28000 were all there are.
                sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((self._target.source, 0))
        return sock

    def _resolve(self, connection: Connection) -> None:
        connection.opened = self._clock()
        try:
            sock = self._socket(connection, socket.SOCK_DGRAM)
            sock.connect(self._target.resolver)
            sock.send(connection.query)
        except OSError as error:
            self._fail(connection, f"dns {_kind(error)}")
            return
        self._by_fd[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _resolved(self, connection: Connection) -> None:
        try:
            message = connection.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(connection, f"dns {_kind(error)}")
            return
        if message[:2] != connection.query[:2]:
            return  # not the answer to this question: keep listening
        address, why = dns.answer(message, self._rtype)
        if why:
            self._fail(connection, f"dns {why}")
            return
        connection.resolved = self._clock()
        connection.peer = address
        self._drop(connection)
        self._connect(connection)

    def _connect(self, connection: Connection) -> None:
        connection.state = _CONNECTING
        try:
            sock = self._socket(connection, socket.SOCK_STREAM)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = sock.connect_ex((connection.peer, self._target.port))
        except OSError as error:
            self._fail(connection, f"connect {_kind(error)}")
            return
        if code not in (0, errno.EINPROGRESS):
            self._fail(connection, f"connect {_kind(OSError(code, ''))}")
            return
        self._by_fd[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), select.EPOLLOUT)

    def _connected(self, connection: Connection) -> None:
        code = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fail(connection, f"connect {_kind(OSError(code, ''))}")
            return
        connection.connected = self._clock()
        connection.state = _TALKING
        self._epoll.modify(connection.sock.fileno(), select.EPOLLIN)
        self._say(connection, connection.conversation.opening())

    def _talk(self, connection: Connection) -> None:
        try:
            data = connection.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(connection, f"talk {_kind(error)}")
            return
        now = self._clock()
        if not data:
            self._fail(connection, "talk closed")
            return
        if not connection.first:
            connection.first = now
        talk = connection.conversation
        said = talk.feed(data)
        if talk.finished:
            connection.done = self._clock()
            if connection.done > self._end:  # a late batch of events must not complete what the deadline has ended
                self._fail(connection, "talk deadline")
            else:
                self._settle(connection)
        elif talk.trouble:
            self._fail(connection, f"protocol: {talk.trouble}")
        else:
            self._say(connection, said)

    def _say(self, connection: Connection, data: bytes) -> None:
        """Sends `data`; what the socket's buffer does not take goes out as the peer reads, while the others go on."""
        if not data:
            return
        if connection.unsent:
            connection.unsent = memoryview(bytes(connection.unsent) + data)
            return
        try:
            sent = connection.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._fail(connection, f"talk {_kind(error)}")
            return
        if sent < len(data):
            connection.unsent = memoryview(data)[sent:]
            connection.state = _SENDING
            self._epoll.modify(connection.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def _send_on(self, connection: Connection) -> None:
        """Goes on with a large message, and listens: a server may answer before it has heard all."""
        try:
            with contextlib.suppress(BlockingIOError):  # woken by what came in: the buffer is still full
                connection.unsent = connection.unsent[connection.sock.send(connection.unsent) :]
        except OSError as error:
            self._fail(connection, f"talk {_kind(error)}")
            return
        if not connection.unsent:
            connection.state = _TALKING
            self._epoll.modify(connection.sock.fileno(), select.EPOLLIN)
        self._talk(connection)

    # --- the loop ---------------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        step = {
            _RESOLVING: self._resolved, _CONNECTING: self._connected, _TALKING: self._talk, _SENDING: self._send_on,
        }  # fmt: skip
        retry_at = self._clock() + _RETRY_S[0]
        while self._live:
            now = self._clock()
            if now >= self._end:
                break
            if now >= retry_at:
                retry_at = self._ask_again(now)
            # A descriptor is closed only by the step that its own event causes, and a batch has one event for each:
            # so a number that is used again within a batch has no older event left in it.
            for fd, _ in self._epoll.poll(max(0.0, min(self._end, retry_at) - now), 1024):
                connection = self._by_fd.get(fd)
                if connection is not None and connection.state != _DONE:
                    step[connection.state](connection)
        for connection in self.connections:
            if connection.state != _DONE:
                self._fail(connection, f"{_PHASE_OF[connection.state]} deadline")

    def _ask_again(self, now: float) -> float:
        """Repeats the queries without an answer; a lost datagram must not cost more than a resolver's patience."""
        following = float("inf")
        for connection in self.connections:
            if connection.state != _RESOLVING or connection.retries >= len(_RETRY_S):
                continue
            due = connection.opened + sum(_RETRY_S[: connection.retries + 1])
            if due <= now:
                connection.retries += 1
                self.dns_retries += 1
                try:
                    connection.sock.send(connection.query)
                except OSError as error:
                    self._fail(connection, f"dns {_kind(error)}")
                    continue
                due = connection.opened + sum(_RETRY_S[: connection.retries + 1])
            following = min(following, due)
        return following

    # --- endings ----------------------------------------------------------------------------------------------------

    def _drop(self, connection: Connection) -> None:
        sock = connection.sock
        self._by_fd.pop(sock.fileno(), None)
        self._note_source(sock)
        sock.close()  # which takes it out of the epoll set too

    def _note_source(self, sock: socket.socket) -> None:
        address = sock.getsockname()[0]
        if address not in _UNBOUND:  # one that failed before it had any
            self.sources.add(address)

    def _settle(self, connection: Connection) -> None:
        """Its figure is taken; what its socket really was is asked of the kernel now."""
        self.families.add(connection.sock.getsockopt(socket.SOL_SOCKET, _SO_DOMAIN))
        with contextlib.suppress(OSError):  # a peer that has reset meanwhile leaves the address that was connected to
            connection.peer = connection.sock.getpeername()[0]
        connection.state = _DONE
        self._live -= 1
        # An EOF of the server would wake the loop again and again while the others still measure.
        self._epoll.unregister(connection.sock.fileno())

    def _fail(self, connection: Connection, failure: str) -> None:
        connection.failure = failure
        connection.state = _DONE
        self._live -= 1
        sock = getattr(connection, "sock", None)
        if sock is not None and sock.fileno() >= 0:
            self._drop(connection)

    def _close(self) -> None:
        for connection in self.connections:
            sock = getattr(connection, "sock", None)
            if sock is None or sock.fileno() < 0:
                continue
            self._note_source(sock)
            if connection.conversation.goodbye and not connection.failure:
                # The figure is taken: a server that has gone already needs no goodbye.
                with contextlib.suppress(OSError):
                    sock.send(connection.conversation.goodbye)
            sock.close()
        self._epoll.close()


def _kind(error: OSError) -> str:
    """A failure's kind in a word or two: `refused`, `reset`, `unreachable`."""
    words = {
        errno.ECONNREFUSED: "refused",
        errno.ECONNRESET: "reset",
        errno.EPIPE: "reset",
        errno.EHOSTUNREACH: "unreachable",
        errno.ENETUNREACH: "unreachable",
        errno.ETIMEDOUT: "timed out",
        errno.EMFILE: "out of file descriptors",
        errno.EADDRNOTAVAIL: "no source address",
    }
    return words.get(error.errno or 0, errno.errorcode.get(error.errno or 0, type(error).__name__))


def packed(connections: list[Connection], began: float) -> bytes:
    """The completed connections as rows of `PHASES`, native float64, in the order in which they were opened."""
    rows = array("d")
    for each in connections:
        if not each.failure:
            start = each.opened
            rows.extend(
                (start - began, each.resolved - start, each.connected - start, each.first - start, each.done - start)
            )
    return rows.tobytes()
