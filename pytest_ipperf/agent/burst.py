"""A burst: N connections at once on one epoll loop, each timed through its phases.

Closed mode: every connection is opened as fast as the loop can, and its own clock starts when its first socket is
opened, so what a late start costs is not charged to it. The loop is bare `epoll` around sans-I/O conversations
because the instrument's own work per connection is part of every figure. TCP sockets are watched for edges and not for
levels, as a connection then costs one call to `epoll_ctl` in place of three.

A closed burst is a queue in the client too: what waits for the loop to come round is in the figure, the more so the
larger N is and the faster the server. `late`, `lag_s` and `peak` tell how much.

Finished sessions stay open until the last one has its figure: N really are open at once, and a server's work on
closing sessions is in nobody's time.
"""

from __future__ import annotations

import contextlib
import errno
import math
import select
import socket
import time
from collections.abc import Callable, Sequence

from pytest_ipperf.agent.stamps import SO_TIMESTAMPNS, STAMP_ROOM, waited_s
from pytest_ipperf.agent.target import RETRY_S, Target, failure_kind, own_socket
from pytest_ipperf.core import dns
from pytest_ipperf.protocols.base import Conversation

_RESOLVING, _CONNECTING, _TALKING, _DONE = range(4)
_PHASE_OF = {_RESOLVING: "dns", _CONNECTING: "connect", _TALKING: "talk"}
_READ_BYTES = 65536
_BROKEN = select.EPOLLERR | select.EPOLLHUP
_ENDED = _BROKEN | select.EPOLLRDHUP
_READABLE = select.EPOLLIN | _ENDED
_EDGES = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_NOTHING = memoryview(b"")
_UNBOUND = {"0.0.0.0", "::"}  # noqa: S104 - what a socket without an address calls itself, not a place to listen


class Connection:
    """One of the N; times are `perf_counter` seconds, 0.0 where a phase was not reached; `late` lasts, or is nan."""

    __slots__ = (
        "connected", "conversation", "done", "failure", "first", "late", "opened", "peer", "query", "resolved",
        "retries", "sock", "state", "unsent",
    )  # fmt: skip

    def __init__(self, conversation: Conversation, query: bytes) -> None:
        self.conversation = conversation
        self.query = query
        self.state = _RESOLVING
        self.retries = 0
        self.failure = ""
        self.peer = ""
        self.opened = self.resolved = self.connected = self.first = self.done = 0.0
        self.late = math.nan
        self.sock: socket.socket
        self.unsent = _NOTHING


class Burst:
    """Runs N conversations against a target; `run()` returns when each has finished, failed or met the deadline.

    Then there are, beside the `connections`: `lag_s`, the longest that the loop took to come round; `peak`, the most
    connections that were in their conversations at once; `sources` and `families`, as the kernel told them.
    With `hold=False` each connection is closed as soon as it has its figure.
    """

    def __init__(
        self,
        target: Target,
        conversations: Sequence[Conversation],
        deadline_s: float,
        first_ident: int,
        *,
        hold: bool = True,
    ) -> None:
        self._target = target
        self._resolver = target.resolver or ("", 0)
        self._deadline_s = deadline_s
        self._hold = hold
        self._rtype = dns.record_type(6 if target.family == socket.AF_INET6 else 4)
        self.connections = [Connection(talk, self._query(first_ident + at)) for at, talk in enumerate(conversations)]
        self.sources: set[str] = set()
        self.families: set[int] = set()
        self.dns_retries = 0
        self.began = 0.0
        self.lag_s = 0.0
        self.peak = 0
        self._end = 0.0
        self._live = len(self.connections)
        self._talking = 0
        self._by_fd: dict[int, Connection] = {}
        self._epoll = select.epoll()
        self._clock: Callable[[], float] = time.perf_counter

    def _query(self, ident: int) -> bytes:
        return dns.query(self._target.name, self._rtype, ident & 0xFFFF) if self._target.resolver else b""

    def run(self) -> None:
        """Opens all, drives them to their ends, closes all."""
        try:
            self.began = self._clock()
            self._end = self.began + self._deadline_s
            begin = self._resolve if self._target.resolver else self._go
            for connection in self.connections:
                connection.opened = self._clock()
                begin(connection)
            self._drive()
        finally:
            self._close()

    # --- the phases -------------------------------------------------------------------------------------------------

    def _resolve(self, connection: Connection) -> None:
        try:
            sock = connection.sock = own_socket(self._target, socket.SOCK_DGRAM)
            sock.connect(self._resolver)
            sock.send(connection.query)
        except OSError as error:
            self._fail(connection, f"dns {failure_kind(error)}")
            return
        self._by_fd[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _resolved(self, connection: Connection, _: int) -> None:
        try:
            message = connection.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(connection, f"dns {failure_kind(error)}")
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

    def _go(self, connection: Connection) -> None:
        connection.resolved = connection.opened
        connection.peer = self._target.name
        self._connect(connection)

    def _connect(self, connection: Connection) -> None:
        connection.state = _CONNECTING
        try:
            sock = connection.sock = own_socket(self._target, socket.SOCK_STREAM)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            code = sock.connect_ex((connection.peer, self._target.port))
        except OSError as error:
            self._fail(connection, f"connect {failure_kind(error)}")
            return
        if code not in (0, errno.EINPROGRESS):
            self._fail(connection, f"connect {failure_kind(OSError(code, ''))}")
            return
        self._by_fd[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), _EDGES)

    def _connected(self, connection: Connection, event: int) -> None:
        if event & _BROKEN and (code := connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
            self._fail(connection, f"connect {failure_kind(OSError(code, ''))}")
            return
        connection.connected = self._clock()
        connection.state = _TALKING
        self._talking += 1
        self.peak = max(self.peak, self._talking)
        self._say(connection, connection.conversation.opening())
        if event & _READABLE:  # what has come already makes no further edge
            self._talk(connection, event)

    def _talk(self, connection: Connection, event: int) -> None:
        """Goes on with a large message, and listens: a server may answer before it has heard all."""
        if connection.unsent and event & select.EPOLLOUT:
            rest, connection.unsent = connection.unsent, _NOTHING
            self._say(connection, rest)
        more = event & _READABLE
        while more and connection.state == _TALKING:
            try:
                data, stamps, _, _ = connection.sock.recvmsg(_READ_BYTES, STAMP_ROOM)
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(connection, f"talk {failure_kind(error)}")
                return
            if not data:
                self._fail(connection, "talk closed")
                return
            self._hear(connection, data, stamps)
            # A short read has emptied the socket, and what comes later is an edge of its own; but an end is none.
            more = event & _ENDED or len(data) == _READ_BYTES

    def _hear(self, connection: Connection, data: bytes, stamps: Sequence[tuple[int, int, bytes]]) -> None:
        now = self._clock()
        if not connection.first:
            connection.first = now
        talk = connection.conversation
        said = talk.feed(data)
        if talk.finished:
            if now > self._end:  # a late batch of events must not complete what the deadline has ended
                self._fail(connection, "talk deadline")
                return
            connection.done = now
            connection.late = waited_s(stamps, now - connection.opened)
            self._settle(connection)
        elif talk.trouble:
            self._fail(connection, f"protocol: {talk.trouble}")
        else:
            self._say(connection, said)

    def _say(self, connection: Connection, data: bytes | memoryview) -> None:
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
            self._fail(connection, f"talk {failure_kind(error)}")
            return
        if sent < len(data):
            connection.unsent = memoryview(data)[sent:]

    # --- the loop ---------------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        steps = (self._resolved, self._connected, self._talk)
        clock, by_fd, woke = self._clock, self._by_fd, self.began
        retry_at = clock() + RETRY_S[0]
        while self._live:
            now = clock()
            self.lag_s = max(self.lag_s, now - woke)
            if now >= self._end:
                break
            if now >= retry_at:
                retry_at = self._ask_again(now)
            events = self._epoll.poll(max(0.0, min(self._end, retry_at) - now), 1024)
            woke = clock()
            # A descriptor is closed only by the step that its own event causes, and a batch has one event for each:
            # so a number that is used again within a batch has no older event left in it.
            for fd, event in events:
                connection = by_fd[fd]
                if connection.state != _DONE:
                    steps[connection.state](connection, event)
        self.lag_s = max(self.lag_s, clock() - woke)
        for connection in self.connections:
            if connection.state != _DONE:
                self._fail(connection, f"{_PHASE_OF[connection.state]} deadline")

    def _ask_again(self, now: float) -> float:
        """Repeats the queries without an answer; a lost datagram must not cost more than a resolver's patience."""
        following = float("inf")
        for connection in self.connections:
            if connection.state != _RESOLVING or connection.retries >= len(RETRY_S):
                continue
            due = connection.opened + sum(RETRY_S[: connection.retries + 1])
            if due <= now:
                connection.retries += 1
                self.dns_retries += 1
                try:
                    connection.sock.send(connection.query)
                except OSError as error:
                    self._fail(connection, f"dns {failure_kind(error)}")
                    continue
                due = connection.opened + sum(RETRY_S[: connection.retries + 1])
            following = min(following, due)
        return following

    # --- endings ----------------------------------------------------------------------------------------------------

    def _drop(self, connection: Connection) -> None:
        """Closes the socket, which takes it out of the epoll set too."""
        address = connection.sock.getsockname()[0]
        if address not in _UNBOUND:  # one that failed before it had any
            self.sources.add(address)
        connection.sock.close()

    def _settle(self, connection: Connection) -> None:
        """Its figure is taken; what its socket really was is asked of the kernel now."""
        own = connection.sock.getsockname()
        self.sources.add(own[0])
        # Python makes four parts of an address that the kernel calls IPv6, and two of one that it calls IPv4.
        self.families.add(socket.AF_INET6 if len(own) == 4 else socket.AF_INET)
        self._end_talk(connection)
        if not self._hold:
            self._leave(connection)

    def _fail(self, connection: Connection, failure: str) -> None:
        connection.failure = failure
        self._end_talk(connection)
        sock = getattr(connection, "sock", None)
        if sock is not None and sock.fileno() >= 0:
            self._drop(connection)

    def _end_talk(self, connection: Connection) -> None:
        self._talking -= connection.state == _TALKING
        self._live -= 1
        connection.state = _DONE

    def _close(self) -> None:
        for connection in self.connections:
            sock = getattr(connection, "sock", None)
            if sock is None or sock.fileno() < 0:
                continue
            self._leave(connection)
        self._epoll.close()

    @staticmethod
    def _leave(connection: Connection) -> None:
        if connection.conversation.goodbye and not connection.failure:
            # It goes out in one segment with the end. The figure is taken: a server that has gone needs no goodbye.
            with contextlib.suppress(OSError):
                connection.sock.send(connection.conversation.goodbye, socket.MSG_MORE)
        connection.sock.close()
