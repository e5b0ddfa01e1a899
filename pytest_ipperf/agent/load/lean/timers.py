"""Timers of a burst of the lean client: opening connections and repeating DNS queries."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from pytest_ipperf.agent.load.lean.connection import ASKING, RESOLVING
from pytest_ipperf.agent.load.lean.loop import Loop
from pytest_ipperf.agent.sockets.target import RETRY_S, failure_kind

_ASKED = (RESOLVING, ASKING)


class BurstTimers:
    """Timers of one burst; `starts` are an open-loop burst's instants since its beginning, none if closed-loop.

    `end` is the deadline of the whole burst.
    """

    def __init__(self, burst: Loop, starts: Sequence[float], deadline_s: float) -> None:
        self._burst = burst
        self._starts = starts
        self._deadline_s = deadline_s
        self._opened = 0
        self._ask_at = 0.0
        self.end = 0.0

    def begin(self, began: float) -> float:
        """Open all connections, or the first ones; return when something is due again, as `run_due`."""
        self.end = self._ask_at = began + self._deadline_s + (self._starts[-1] if self._starts else 0.0)
        if not self._starts:
            self._open_all()
        return self.run_due()

    def run_due(self) -> float:
        """Run what is due; return when something is due again."""
        opening = self._open_due()
        if (now := self._burst.clock()) >= self._ask_at:
            self._ask_at = self._ask_again(now)
        return min(opening, self._ask_at, self.end)

    def _open_all(self) -> None:
        connections, begin, clock, end = self._burst.connections, self._burst.begin, self._burst.clock, self.end
        for connection in connections:
            connection.due = end
            connection.opened = clock()
            begin(connection)
        self._opened = len(connections)
        self._ask_at = clock() + RETRY_S[0]

    def _open_due(self) -> float:
        """Open the connections whose instant has come; return the next instant."""
        burst = self._burst
        while self._opened < len(self._starts):
            instant = burst.began + self._starts[self._opened]
            if instant > (now := burst.clock()):
                return instant
            connection = burst.connections[self._opened]
            self._opened += 1
            connection.opened, connection.start_delay_s = instant, now - instant
            connection.due = instant + self._deadline_s
            burst.begin(connection)
            self._ask_at = min(self._ask_at, now + RETRY_S[0])
        return self.end

    def _ask_again(self, now: float) -> float:
        """Repeat unanswered queries, as a lost datagram must not cost more than a resolver's time-out."""
        following = self.end
        for connection in self._burst.connections[: self._opened]:
            if connection.state not in _ASKED or connection.retries >= len(RETRY_S):
                continue
            sent = connection.opened + connection.start_delay_s
            due = sent + sum(RETRY_S[: connection.retries + 1])
            if due <= now:
                try:
                    if _answered(connection.sock):
                        following = now  # the answer is read at once
                        continue
                    connection.sock.send(connection.query)
                except OSError as error:
                    self._burst.fail(connection, f"{connection.phase} {failure_kind(error)}")
                    continue
                connection.retries += 1
                self._burst.dns_retries += 1
                due = sent + sum(RETRY_S[: connection.retries + 1])
            following = min(following, due)
        return following


def _answered(sock: socket.SocketType) -> bool:
    """Return whether an answer is waiting to be read: then nothing was lost, and the loop was late."""
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return True
