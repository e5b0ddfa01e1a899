"""Two web servers that serve IPv6 slower than IPv4 by a known time, and write down by how much they did.

`late` holds every answer for a while, side by side; for the last 200 microseconds it does not sleep. It tells how long
each was held. `burns` works on one answer after the other, and burns processor time for it. It tells when each left,
since it had read the first request of its burst.

This file is copied to the registry of servers under both names.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import heapq
import itertools
import json
import select
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers.base import Entry, Server, Site

LOG_FILE = "@log@"
"""The file of what it measures, which whoever copies this file fills in."""
SCHEDULE = json.loads("""@schedule@""")
"""By connections at once: seconds for IPv4, and those more for IPv6."""

_NAME = __spec__.name.rpartition(".")[2]
_SPIN_S = 0.0002


class Recipe(Server):
    name = _NAME
    protocol = "http"
    embedded = True
    apt = ""
    probe = (b"", b"")

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return "0"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (Entry("content", site.state.content),)

    def argv(self, site: Site) -> Sequence[str]:
        config = [f"{site.folder}/content", site.port, site.connections, *site.addresses]
        return ("python", "-m", __spec__.name, *map(str, config))


class Slower(ABC):
    """Answers each request when its time has come; `number` is how many come at once."""

    @abstractmethod
    def heard(self, sock, now):
        """A request has been read."""

    @abstractmethod
    def due_s(self):
        """How long there is nothing to do; None where nobody waits for an answer."""

    @abstractmethod
    def work(self):
        """Does what is due."""

    def __init__(self, number, answer, listeners):
        self.number = number
        self.answer = answer
        self._base_s, self._extra_s = SCHEDULE[str(number)]
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._epoll = select.epoll()
        for each in self._listeners:
            self._epoll.register(each)
        self._talking = {}
        self._log = []

    def run(self):
        while True:
            self._wait(self.due_s())
            for each, _ in self._epoll.poll(0, 1024):
                if each in self._listeners:
                    self._accept(self._listeners[each])
                else:
                    self._hear(self._talking.pop(each))
            self.work()

    def _wait(self, left_s):
        if left_s is None:
            with Path(LOG_FILE).open("a") as file:
                file.writelines(f"{json.dumps(each)}\n" for each in self._log)
            self._log.clear()
            select.select([self._epoll], [], [])
        elif left_s > _SPIN_S:
            # Unlike that of epoll its time is not in whole milliseconds.
            select.select([self._epoll], [], [], left_s - _SPIN_S)

    def _accept(self, listener):
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._talking[sock.fileno()] = sock
                self._epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLONESHOT)

    def _hear(self, sock):
        if sock.recv(65536):
            self.heard(sock, time.perf_counter())
        else:  # the agent has only seen whether it listens
            sock.close()

    def needs_s(self, sock):
        return self._base_s + (self._extra_s if sock.family == socket.AF_INET6 else 0.0)

    def reply(self, sock, since):
        """Ends a connection; `since` is the time from which its seconds count."""
        sock.send(self.answer)
        seconds = time.perf_counter() - since
        self._log.append(
            {"number": self.number, "ipver": 6 if sock.family == socket.AF_INET6 else 4, "seconds": seconds}
        )
        sock.close()


class Late(Slower):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._waiting = []
        self._count = itertools.count()

    def heard(self, sock, now):
        heapq.heappush(self._waiting, (now + self.needs_s(sock), next(self._count), now, sock))

    def due_s(self):
        return self._waiting[0][0] - time.perf_counter() if self._waiting else None

    def work(self):
        while self._waiting and self._waiting[0][0] <= time.perf_counter():
            _, _, heard_at, sock = heapq.heappop(self._waiting)
            self.reply(sock, heard_at)


class Burns(Slower):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._queue: collections.deque[socket.socket] = collections.deque()
        self._began = 0.0
        self._answered = 0

    def heard(self, sock, now):
        if self._answered == 0 and not self._queue:
            self._began = now
        self._queue.append(sock)

    def due_s(self):
        return 0.0 if self._queue else None

    def work(self):
        if self._queue:
            sock = self._queue.popleft()
            end = time.thread_time() + self.needs_s(sock)
            while time.thread_time() < end:
                pass
            self.reply(sock, self._began)
            self._answered = (self._answered + 1) % self.number


def main(kind):
    """Serves until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    content, port, number, *addresses = sys.argv[1:]
    ((_, answer),) = application("http").canned_replies(ServerState(Path(content).read_bytes())).turns
    listeners = []
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listeners.append(socket.create_server((address, int(port)), family=family, backlog=4096))
        listeners[-1].settimeout(0)
    gc.disable()
    kind(int(number), answer, listeners).run()


server = Recipe()

if __name__ == "__main__":
    main({"late": Late, "burns": Burns}[_NAME])
