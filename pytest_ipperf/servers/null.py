"""Null server: answers any protocol with canned replies, as cheaply as Python can, to measure the baseline cost.

The baseline cost contains everything but the server: the client, both hosts' network stacks, the link, the look-up.
"""

from __future__ import annotations

import contextlib
import errno
import json
import platform
import random
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.servers.base import Entry, Server, Site, answer_datagrams

_BACKLOG = 65535
_READ_BYTES = 65536
_ACCEPTS = 64


class Null(Server):
    """Server of one process and one thread that sends its site's canned replies, whatever the protocol."""

    name = "null"
    protocol = "any"
    embedded = True
    apt = ""
    needs = "nothing; with it the [baseline cost](client.md) is found, and it is never chosen"
    probe = (b"", b"")  # no more than a connection: with some protocols the client speaks first

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return f"Python {platform.python_version()}"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (Entry("script", site.canned_replies.to_bytes(), 0o600),)

    def argv(self, site: Site) -> Sequence[str]:
        config = {
            "addresses": site.addresses,
            "port": site.port,
            "script": f"{site.folder}/script",
            "data_ports": site.ports,
        }
        return ("python", "-m", __name__, json.dumps(config))


class _Session:
    """One connection: its turn, the end of the bytes received in this turn, and the bytes still to send."""

    __slots__ = ("asides", "blocked", "received", "sock", "turn", "turns", "unsent")

    def __init__(self, sock: socket.socket, replies: CannedReplies) -> None:
        self.sock = sock
        self.turn = 0
        self.turns = replies.turns
        self.asides = replies.asides
        self.received = b""
        self.unsent = memoryview(replies.greeting)
        self.blocked = False


class _Loop:
    """Event loop of all connections, level-triggered because that is simplest; each listener has replies of its own."""

    def __init__(self, listeners: Sequence[tuple[socket.socket, CannedReplies]]) -> None:
        self._epoll = select.epoll()
        self._listeners = {sock.fileno(): (sock, replies) for sock, replies in listeners}
        self._sessions: dict[int, _Session] = {}
        self._waiting: list[socket.socket] = []
        for number in self._listeners:
            self._epoll.register(number, select.EPOLLIN)

    def run(self) -> None:
        while True:
            for number, event in self._epoll.poll():
                if number in self._listeners:
                    self._accept(*self._listeners[number])
                else:
                    session = self._sessions[number]
                    self._advance(session, self._send if event & select.EPOLLOUT else self._receive)

    def _accept(self, listener: socket.socket, replies: CannedReplies) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno != errno.EMFILE or not self._sessions:
                    raise
                self._wait_for_room(listener)
                return
            sock.settimeout(0)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = self._sessions[sock.fileno()] = _Session(sock, replies)
            self._epoll.register(sock.fileno(), select.EPOLLIN)
            self._advance(session, self._send)

    def _wait_for_room(self, listener: socket.socket) -> None:
        """Stop accepting until a session has ended; the kernel queues new connections meanwhile."""
        self._epoll.modify(listener.fileno(), 0)
        self._waiting.append(listener)

    def _advance(self, session: _Session, step: Callable[[_Session], bool]) -> None:
        """Take a step, which returns whether the session continues; close the session if it does not."""
        try:
            goes_on = step(session)
        except OSError:  # the client has gone, which is no error here
            goes_on = False
        if not goes_on:
            del self._sessions[session.sock.fileno()]
            session.sock.close()
            while self._waiting:
                self._epoll.modify(self._waiting.pop().fileno(), select.EPOLLIN)

    def _receive(self, session: _Session) -> bool:
        data = session.sock.recv(_READ_BYTES)
        if not data:
            return False
        for beginning, answer in session.asides:
            if data.startswith(beginning):  # so few bytes come in one segment
                session.unsent = memoryview(answer)
                return self._send(session)
        ending, answer = session.turns[session.turn]
        session.received = (session.received + data)[-len(ending) :]
        if session.received != ending:
            return True
        session.turn += 1
        session.received = b""
        session.unsent = memoryview(answer)
        return self._send(session)

    def _send(self, session: _Session) -> bool:
        if session.unsent:
            with contextlib.suppress(BlockingIOError):
                session.unsent = session.unsent[session.sock.send(session.unsent) :]
        if bool(session.unsent) != session.blocked:
            session.blocked = bool(session.unsent)
            self._epoll.modify(session.sock.fileno(), select.EPOLLOUT if session.blocked else select.EPOLLIN)
        return session.blocked or session.turn < len(session.turns)


def _listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    sock.settimeout(0)
    return sock


def _data_listeners(addresses: Sequence[str], low: int, high: int) -> list[socket.socket]:
    """Return listeners on one port of the range that is free on all addresses; raise OSError if there is none."""
    error = OSError(errno.EADDRINUSE, "no free port for data")
    for port in random.sample(range(low, high + 1), high + 1 - low):
        with contextlib.ExitStack() as stack:
            try:
                found = [stack.enter_context(_listener(address, port)) for address in addresses]
            except OSError as taken:
                error = taken
                continue
            stack.pop_all()
            return found
    raise error


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM; the only argument is the configuration from `Null.argv`, as JSON."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    config = json.loads(argv[0])
    replies = CannedReplies.from_bytes(Path(config["script"]).read_bytes())
    if replies.datagram is not None:
        answer_datagrams(config["port"], dict.fromkeys(config["addresses"], replies.datagram.answer), _READ_BYTES)
    listeners = [_listener(address, config["port"]) for address in config["addresses"]]
    data: list[socket.socket] = []
    if replies.data is not None:
        data = _data_listeners(config["addresses"], *config["data_ports"])
        replies = replies.with_port(data[0].getsockname()[1])
    # A client that connects to the data port has asked for the data or is just asking for it, so it is sent at once.
    moved = CannedReplies(replies.data or b"", ())
    _Loop([*((sock, replies) for sock in listeners), *((sock, moved) for sock in data)]).run()


server = Null()

if __name__ == "__main__":
    main(sys.argv[1:])
