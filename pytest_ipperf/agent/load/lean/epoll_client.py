"""Epoll client: run a burst of N connections on one epoll loop, each timed through its phases.

Closed-loop mode: every connection is opened as fast as the loop can, and its own clock starts when its first socket is
opened, so a late start is not charged to it. Open-loop mode: every connection has an instant at which it has to be
opened, however the others fare, and its clock starts at that instant, so that nothing is omitted when the client or the
server stalls. The loop is bare `epoll` around sans-I/O conversations because the instrument's own work per connection
is part of every figure.

A closed-loop burst is a queue in the client too: time that an event waits for the loop is in the figure, the more so
the larger N is and the faster the server. `late`, `lag_s` and `peak` show how much.

Finished sessions stay open until the last one has its figure: N really are open at once, and a server's work on closing
sessions is in no connection's time.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pytest_ipperf.agent.load.lean.connection import (
    BROKEN,
    CONNECTING,
    CONVERSING,
    DONE,
    EDGES,
    ENDED,
    NOTHING,
    READ_BYTES,
    READABLE,
    TURN,
    Connection,
    DataConnection,
)
from pytest_ipperf.agent.load.lean.data_connections import DataConnections
from pytest_ipperf.agent.load.lean.timers import BurstTimers
from pytest_ipperf.agent.sockets.receive_timestamps import (
    SO_TIMESTAMPNS,
    TIMESTAMP_SPACE,
    Stamps,
    segment_timestamp_ns,
    wall_clock_lead_ns,
)
from pytest_ipperf.agent.sockets.target import Target, answer_failure, bare_socket, connect_kind, failure_kind
from pytest_ipperf.core.portable import dns
from pytest_ipperf.protocols.base import Conversation

_SELECTABLE = 1024
_STARTED = (0, errno.EINPROGRESS)
_CLOCK_SET_NS = 50_000  # readings of a clock that was not set differ by a few microseconds at most
_IDENT = struct.Struct("!H")
_UNBOUND = {"0.0.0.0", "::"}  # noqa: S104 - the name of a socket without an address, not a place to listen


class Burst:
    """Burst of N conversations with a target; `run()` returns when each has finished, failed or met the deadline.

    Then there are, beside the `connections`: `lag_s`, the longest time between two polls; `peak`, the most connections
    that were in their conversations at once; `sources` and `families`, as the kernel reports them; `began`, the
    intended begin, and `woke`, the real one.

    `starts` are the instants of an open-loop burst, in seconds since its beginning, one for each conversation in order.
    With `hold=False` each connection is closed as soon as it has its figure; with `stay` none is before `close()`.
    Without `stay`, bursts that follow each other may share an `epoll` set, as each leaves it empty.
    """

    def __init__(
        self,
        target: Target,
        conversations: Sequence[Conversation],
        deadline_s: float,
        first_ident: int,
        *,
        stride: int = 1,
        starts: Sequence[float] = (),
        hold: bool = True,
        stay: bool = False,
        epoll: select.epoll | None = None,
    ) -> None:
        self.target = target
        self._resolver = target.resolver or ("", 0)
        self._hold, self._stay, self._own_epoll = hold, stay, epoll is None
        self._rtype = dns.record_type(6 if target.family == socket.AF_INET6 else 4)
        self._question, query = _look_up(target.name, self._rtype) if target.resolver else (b"", b"")
        self.connections = [
            Connection(each, query and _IDENT.pack((first_ident + at * stride) & 0xFFFF) + query)
            for at, each in enumerate(conversations)
        ]
        self._timers = BurstTimers(self, starts, deadline_s)
        self._is_open = bool(starts)
        self.sources: set[str] = set()
        self.families: set[int] = set()
        self._recorded = False
        self.began = self.woke = self.lag_s = 0.0
        self.dns_retries = self.peak = 0
        self._unfinished = len(self.connections)
        self._active = 0
        self._by_fd: dict[int, Connection | DataConnection] = {}
        self._data = DataConnections(self)
        self.epoll = epoll or select.epoll()
        self.to_close: list[socket.SocketType] = []
        self.clock: Callable[[], float] = time.perf_counter

    def run(self, at: float = 0.0) -> None:
        """Open and complete all connections, then close all that need not stay; begin when the clock says `at`."""
        if at:
            time.sleep(max(0.0, at - self.clock()))
        lead_ns = wall_clock_lead_ns()
        try:
            self.woke = self.clock()
            self.began = at or self.woke
            self._drive(self._timers.begin(self.began))
            self._note_rx_delays(lead_ns)
        except BaseException:
            self.close()
            raise
        finally:
            if self._own_epoll:
                self.epoll.close()
            del self._timers, self._data  # they refer to the burst, which only the disabled collector could free then
        if not self._stay:
            self.close()

    # --- phases -------------------------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        """Open the first socket of a connection."""
        if self.target.resolver:
            self._resolve(connection)
            return
        connection.resolved = connection.opened
        connection.peer = self.target.name
        self._connect(connection)

    def steps(self) -> Sequence[Callable[[Any, int], None]]:
        """Return the functions that handle an event of a descriptor, by its state."""
        return self._resolved, self._connected, self._receive, self._data.opened, self._data.moved

    def _resolve(self, connection: Connection) -> None:
        try:
            sock = connection.sock = bare_socket(self.target, socket.SOCK_DGRAM)
            sock.connect(self._resolver)
            sock.send(connection.query)
        except OSError as error:
            self.fail(connection, f"dns {failure_kind(error)}")
            return
        self.watch(sock, connection, select.EPOLLIN)

    def _resolved(self, connection: Connection, _: int) -> None:
        try:
            message = connection.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(connection, f"dns {failure_kind(error)}")
            return
        if message[:2] != connection.query[:2]:
            return  # not the answer to this query: keep listening
        answer = dns.answer(message, self._question, self.target.addresses)
        if answer.trouble:
            self.fail(connection, answer_failure(answer))
            return
        connection.resolved = self.clock()
        connection.peer = answer.address
        self._close_query_socket(connection)
        self._connect(connection)

    def _connect(self, connection: Connection) -> None:
        connection.state = CONNECTING
        try:
            sock = connection.sock = bare_socket(self.target, socket.SOCK_STREAM)
            if not connection.conversation.lockstep:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            code = sock.connect_ex((connection.peer, self.target.port))
        except OSError as error:
            self.fail(connection, f"connect {failure_kind(error)}")
            return
        if code not in _STARTED:
            self.fail(connection, f"connect {connect_kind(code)}")
            return
        number = sock.fileno()
        self._by_fd[number] = connection  # inlined from `watch`, which would be a call more for each connection
        self.epoll.register(number, EDGES)

    def watch(self, sock: socket.SocketType, who: Connection | DataConnection, events: int = EDGES) -> None:
        """Register a socket with the epoll set until it is closed."""
        self._by_fd[sock.fileno()] = who
        self.epoll.register(sock.fileno(), events)

    def _connected(self, connection: Connection, event: int) -> None:
        if event & BROKEN and (code := connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
            self.fail(connection, f"connect {failure_kind(OSError(code, ''))}")
            return
        connection.connected = self.clock()
        connection.state = CONVERSING
        self.count_started()
        if data := connection.conversation.first_bytes():
            self._send(connection, data)
        if event & READABLE:  # data that has come already makes no further edge
            self._receive(connection, event)

    def count_started(self) -> None:
        """Count a connection that has begun its conversation."""
        self._active += 1
        if self._active > self.peak:  # noqa: PLR1730 - a call less for each connection
            self.peak = self._active

    def _receive(self, connection: Connection, event: int) -> None:
        """Continue sending a large message, and receive: a server may answer before it has read all."""
        if connection.unsent and event & select.EPOLLOUT:
            rest, connection.unsent = connection.unsent, NOTHING
            self._send(connection, rest)
        if connection.state == DONE or not event & READABLE:
            return
        conversation, sock = connection.conversation, connection.sock
        for _ in TURN:
            try:
                if conversation.may_finish:
                    data, stamps, _, _ = sock.recvmsg(READ_BYTES, TIMESTAMP_SPACE)
                else:
                    data, stamps = sock.recv(READ_BYTES), []
            except BlockingIOError:
                return
            except OSError as error:
                self.fail(connection, f"talk {failure_kind(error)}")
                return
            if not data:
                conversation.closed()
                self.fail(connection, conversation.failure or "talk closed")
                return
            now = self.clock()
            if not connection.first:
                connection.first = now
            self.advance(connection, conversation.receive_data(data), now, stamps)
            # After a short read the socket is empty, and later data makes a new edge; but an end makes none.
            if connection.state == DONE or (len(data) < READ_BYTES and not event & ENDED):
                return
        self.epoll.modify(sock.fileno(), EDGES)  # remaining data makes another edge

    def advance(self, connection: Connection, reply: bytes, now: float, stamps: Stamps = ()) -> None:
        """Do what the conversation asks for after it received something at `now`."""
        conversation = connection.conversation
        if conversation.finished:
            self._complete(connection, now, stamps)
        elif conversation.trouble:
            self.fail(connection, conversation.failure)
        else:
            if reply:
                self._send(connection, reply)
            if conversation.data_port and not connection.data and connection.state != DONE:
                self._data.open(connection)

    def _send(self, connection: Connection, data: bytes | memoryview) -> None:
        """Send `data`; whatever the socket's buffer does not accept is sent later, as the peer reads."""
        if connection.unsent:
            connection.unsent = memoryview(bytes(connection.unsent) + data)
            return
        try:
            sent = connection.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.fail(connection, f"talk {failure_kind(error)}")
            return
        if sent < len(data):
            # In lockstep too, what follows this part must not wait for its acknowledgement.
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.unsent = memoryview(data)[sent:]

    # --- the loop ---------------------------------------------------------------------------------------------------

    def _drive(self, due: float) -> None:
        steps, to_close, by_fd = self.steps(), self.to_close, self._by_fd
        clock, woke, timers = self.clock, self.began, self._timers
        # epoll's time-out has whole milliseconds; select's has microseconds, but takes low descriptors only.
        fine = (self.epoll,) if self._is_open and self.epoll.fileno() < _SELECTABLE else ()
        while self._unfinished:
            now = clock()
            self.lag_s = max(self.lag_s, now - woke)
            if now >= timers.end:
                break
            if now >= due:
                due = timers.run_due()
                now = clock()
            patience_s = max(0.0, due - now)
            if fine:
                select.select(fine, (), (), patience_s)
                patience_s = 0.0
            events = self.epoll.poll(patience_s, 1024)
            woke = clock()
            # Within a batch, which has one event for each descriptor, only the step of its own event closes a
            # descriptor: so no older event is left for a number that is reused in it. All others are closed after the
            # batch.
            for fd, event in events:
                who = by_fd[fd]
                if who.state != DONE:
                    steps[who.state](who, event)
            for sock in to_close:
                sock.close()
            to_close.clear()
        self.lag_s = max(self.lag_s, clock() - woke)
        for connection in self.connections:
            if connection.state != DONE:
                self.fail(connection, f"{connection.phase} deadline")

    def _note_rx_delays(self, lead_ns: int) -> None:
        """Note the delays of reading, unless the wall clock was set since it had this lead over `perf_counter`."""
        if abs(wall_clock_lead_ns() - lead_ns) > _CLOCK_SET_NS:
            return
        began, began_ns = self.began, int(self.began * 1e9) + lead_ns
        for connection in self.connections:
            if connection.stamps:
                delay_s = connection.done - began - (segment_timestamp_ns(connection.stamps) - began_ns) * 1e-9
                if 0 <= delay_s <= connection.done - connection.opened:
                    connection.rx_delay_s = delay_s

    # --- endings ------------------------------------------------------------------------------------------------------

    def _close_query_socket(self, connection: Connection) -> None:
        """Close the look-up's socket, which also removes it from the epoll set."""
        self._record_source(connection.sock)
        connection.sock.close()

    def _record_source(self, sock: socket.SocketType) -> None:
        address = sock.getsockname()[0]
        if address not in _UNBOUND:  # a socket that failed before it had an address
            self.sources.add(address)

    def record_endpoint(self, sock: socket.SocketType) -> None:
        """Record the local address and the family of a connected socket, as the kernel reports them."""
        local = sock.getsockname()
        self.sources.add(local[0])
        # Python returns four parts for an IPv6 address of the kernel, and two for an IPv4 one.
        self.families.add(socket.AF_INET6 if len(local) == 4 else socket.AF_INET)

    def _complete(self, connection: Connection, now: float, stamps: Stamps) -> None:
        """Complete a connection whose conversation has finished with what was read at `now`."""
        if now > connection.due:  # a late batch of events must not complete a connection after its deadline
            self.fail(connection, f"{connection.phase} deadline")
            return
        connection.done = now
        connection.stamps = stamps
        if not self._recorded:  # all have one: the target's source, or what the kernel chooses for the target's address
            self._recorded = True
            self.record_endpoint(connection.sock)
        self._end_conversation(connection)
        if not self._hold:
            if connection.conversation.closing_bytes:
                self._send_closing_bytes(connection)
            self.to_close.append(connection.sock)

    def fail(self, connection: Connection, failure: str) -> None:
        """End a connection as failed."""
        connection.failure = failure
        self._end_conversation(connection)
        sock = getattr(connection, "sock", None)
        if sock is not None and sock.fileno() >= 0:
            self._record_source(sock)
            self.to_close.append(sock)

    def _end_conversation(self, connection: Connection) -> None:
        self._active -= connection.connected > 0
        self._unfinished -= 1
        connection.state = DONE
        if connection.data:
            self._data.end(connection)

    def close(self) -> None:
        """Close all sockets that are still open."""
        for each in self.to_close:
            each.close()
        for connection in self.connections:
            if connection.data:
                connection.data.sock.close()
            sock = getattr(connection, "sock", None)
            if sock is None or sock.fileno() < 0:
                continue
            if connection.done and connection.conversation.closing_bytes:
                self._send_closing_bytes(connection)
            sock.close()

    @staticmethod
    def _send_closing_bytes(connection: Connection) -> None:
        # Sent in one segment with the FIN. The figure is taken, so it does not matter if the server has gone.
        with contextlib.suppress(OSError):
            connection.sock.send(connection.conversation.closing_bytes, socket.MSG_MORE)


@lru_cache(maxsize=1)  # all connections of a run ask for the same
def _look_up(name: str, rtype: int) -> tuple[bytes, bytes]:
    """Return the question for a name, and the query that asks it, without its identifier."""
    return dns.question(name, rtype), dns.query(name, rtype, 0)[_IDENT.size :]
