"""Loop of a query load: closed, with queries outstanding, or open, at instants of a schedule."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import select
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator

from pytest_ipperf.agent.flows.dns.query import Client, Query, Socket
from pytest_ipperf.agent.flows.dns.questions import TRUNCATED, Questions
from pytest_ipperf.agent.flows.dns.tally import LOST, Tally
from pytest_ipperf.agent.flows.spec import FlowSpec
from pytest_ipperf.agent.sockets.target import Target, bound_socket
from pytest_ipperf.protocols.base import CONTENT, PROTOCOL

NOT_SENT = "not sent in time"
"""Kind of failure of a query whose instant came while the client was behind, and which was not sent before the end."""
_ANSWERS = (PROTOCOL, CONTENT, TRUNCATED)
_TICK_S = 0.1
_AGAIN_S = 0.1
# Within this time after the end of an open loop, queries that were due before it are still sent.
_GRACE_S = 0.1
_TURN = 64
_AT_ONCE = struct.pack("ii", 1, 0)
_SELECTABLE = 1024
_FAR = 1e9


class Load:
    """Queries to the server of a spec; `clients` are set by the engine before anything is asked.

    A closed loop keeps a number of queries outstanding: each client asks the next one as soon as one of its own is
    over. An open loop asks at the instants of a schedule, whatever becomes of the queries before.
    """

    def __init__(self, spec: FlowSpec, questions: Questions, alive: Callable[[], None]) -> None:
        family = socket.AF_INET6 if spec.ipver == 6 else socket.AF_INET
        self._target = Target(family, None, spec.address, spec.service.port, spec.source)
        self.server = spec.address, spec.service.port
        self.questions = questions
        self.tally = Tally()
        self.clients: list[Client] = []
        self.families: set[str] = set()
        self.sources: set[str] = set()
        self.peers: Counter[str] = Counter()
        self._deadline_s, self._alive = spec.deadline_s, alive
        self._numbers = itertools.count(1)
        self._epoll = select.epoll()
        self._sockets: dict[int, tuple[socket.socket, Socket]] = {}
        self._by_age: deque[Query] = deque()
        self._paused: list[tuple[float, int, Client]] = []
        self._outstanding = 0
        self._until_s = 0.0
        self._ticked_s = 0.0

    # --- what clients use ---------------------------------------------------------------------------------------------

    def open(self, kind: int) -> socket.socket:
        """Return a socket from the arm's address; raise OSError if there is none."""
        return bound_socket(self._target, kind)

    def connecting(self, owner: Socket) -> socket.socket:
        """Return a TCP socket that begins to connect, watched for its owner; raise OSError if it cannot begin."""
        sock = self.open(socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # It is closed by a reset, so that neither end remembers it for a minute and runs out of ports.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            with contextlib.suppress(BlockingIOError):
                sock.connect(self.server)
        except BaseException:
            sock.close()
            raise
        self.watch(sock, owner, select.EPOLLOUT)
        return sock

    def watch(self, sock: socket.socket, owner: Socket, events: int = select.EPOLLIN) -> None:
        """Let the owner handle the events of a socket."""
        self._sockets[sock.fileno()] = sock, owner
        self._epoll.register(sock.fileno(), events)
        if sock.type == socket.SOCK_DGRAM:
            self.note_path(sock)

    def rewatch(self, sock: socket.socket, events: int) -> None:
        """Change the events that are handled."""
        self._epoll.modify(sock.fileno(), events)

    def unwatch(self, sock: socket.socket) -> None:
        """Close a socket."""
        self._sockets.pop(sock.fileno(), None)
        sock.close()

    def note_path(self, sock: socket.socket) -> None:
        """Note the addresses and the family of a connected socket."""
        self.families.add(sock.family.name)
        self.sources.add(sock.getsockname()[0])
        self.peers[sock.getpeername()[0]] += 1

    def finish(self, query: Query, size_bytes: int) -> None:
        """Count a right answer that has come just now; in a closed loop its client asks the next query."""
        now_s = time.perf_counter()
        if now_s - query.sent_s > self._deadline_s:  # a late batch of events must not complete it
            self.fail(query, LOST)
            return
        query.over = True
        self._outstanding -= 1
        self.tally.right(query, now_s, size_bytes)
        if now_s < self._until_s:
            self._ask(query.client, now_s, now_s)

    def fail(self, query: Query, kind: str, *, pause: bool = False) -> None:
        """Count a failure; in a closed loop its client asks the next query, after a `pause` if it asked for that."""
        query.over = True
        self._outstanding -= 1
        self.tally.wrong(query.intended_s, kind)
        now_s = time.perf_counter()
        if now_s < self._until_s:
            heapq.heappush(self._paused, (now_s + (_AGAIN_S if pause else 0.0), id(query), query.client))

    # --- the loops ----------------------------------------------------------------------------------------------------

    def ask_once(self, within_s: float) -> bool:
        """Ask until a query is answered, at most for that long, or until an answer is wrong; return if it was right."""
        again_s = time.perf_counter()
        end_s = again_s + within_s
        while (now_s := time.perf_counter()) < end_s and not self.tally.answered_ever:
            if any(kind.startswith(_ANSWERS) for kind in self.tally.before):
                return False
            if not self._outstanding and now_s >= again_s:  # a server that refuses connections says so at once
                again_s = now_s + _AGAIN_S
                self._ask(self.clients[0], now_s, now_s)
                self.clients[0].flush()
            self._turn(now_s + _TICK_S)
        return bool(self.tally.answered_ever)

    def run_closed(self, outstanding: int, until_s: float) -> None:
        """Keep that many queries outstanding until that time, then wait for the last ones."""
        self._until_s = until_s
        for _, client in zip(range(outstanding), itertools.cycle(self.clients), strict=False):
            now_s = time.perf_counter()
            self._ask(client, now_s, now_s)
        for client in self.clients:
            client.flush()
        while time.perf_counter() < until_s:
            self._turn(until_s)
        self._until_s = 0.0
        self._drain()

    def run_open(self, instants_s: Iterator[float], until_s: float) -> None:
        """Ask at these instants, until that time, then wait for the last answers; clients take turns."""
        clients = itertools.cycle(self.clients)
        due_s = next(instants_s, _FAR)
        while (now_s := time.perf_counter()) < until_s or (due_s < until_s and now_s < until_s + _GRACE_S):
            asked = set()
            for _ in range(_TURN):
                if due_s > now_s or due_s >= until_s:
                    break
                client = next(clients)
                self._ask(client, due_s, time.perf_counter())
                asked.add(client)
                due_s = next(instants_s, _FAR)
            for client in asked:
                client.flush()
            self._turn(min(due_s, max(until_s, now_s)))
        while due_s < until_s:
            self.tally.wrong(due_s, NOT_SENT)
            due_s = next(instants_s, _FAR)
        self._drain()

    def close(self) -> None:
        """Close all sockets."""
        for client in self.clients:
            client.close()
        self._epoll.close()

    def _ask(self, client: Client, intended_s: float, now_s: float) -> None:
        query = Query(client, self.questions.message(next(self._numbers)), intended_s, now_s)
        self._by_age.append(query)
        self._outstanding += 1
        client.ask(query)

    def _drain(self) -> None:
        while self._outstanding:
            self._turn(time.perf_counter() + _TICK_S)

    def _turn(self, until_s: float) -> None:
        """Handle what has come, or comes until that time, and what is due."""
        now_s = time.perf_counter()
        if now_s > self._ticked_s:
            self._ticked_s = now_s + _TICK_S
            self._alive()
        self._expire(now_s)
        while self._paused and self._paused[0][0] <= now_s:
            client = heapq.heappop(self._paused)[2]
            if now_s < self._until_s:
                self._ask(client, now_s, now_s)
                client.flush()
        self._wait(max(0.0, self._wake_s(until_s) - time.perf_counter()))

    def _wake_s(self, until_s: float) -> float:
        wake_s = min(until_s, self._ticked_s, self._paused[0][0] if self._paused else _FAR)
        return min(wake_s, self._by_age[0].sent_s + self._deadline_s) if self._by_age else wake_s

    def _wait(self, patience_s: float) -> None:
        # A closed loop has no instant to keep: a whole number of milliseconds, in one call, will do.
        events = self._epoll.poll(patience_s if self._until_s else 0, 1024)
        if not events and patience_s and not self._until_s:
            # epoll's time-out has whole milliseconds; select's has microseconds, but takes low descriptors only.
            if self._epoll.fileno() < _SELECTABLE:
                select.select((self._epoll,), (), (), patience_s)
                patience_s = 0.0
            events = self._epoll.poll(patience_s, 1024)
        sockets = self._sockets
        for number, event in events:
            found = sockets.get(number)
            if found is not None:
                found[1].handle(found[0], event)

    def _expire(self, now_s: float) -> None:
        by_age, before_s = self._by_age, now_s - self._deadline_s
        while by_age and (by_age[0].over or by_age[0].sent_s < before_s):
            query = by_age.popleft()
            if not query.over:
                query.client.forget(query)
                self.fail(query, LOST)
