"""Streams: connected TCP sockets, each with a thread of its own that blocks in the kernel.

Python's lock is no limit, as it is free while a thread is in the kernel, which copies 64 KiB and more at once. A
socket's own time limits (SO_SNDTIMEO, SO_RCVTIMEO) cost no poll(2) for each call, as `settimeout` would.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from pytest_ipperf.agent.sockets.target import failure_kind
from pytest_ipperf.core.portable.errors import LabError

OVER = b"."
"""What the receiver says on each stream, the other way, when its run is over."""
DRAIN_S = 0.2
"""How long what the sender's kernel still has may take to arrive, after the run, before it is thrown away.

Megabytes would otherwise keep a slow link busy for seconds, and with it the next run.
"""
_TICK_S = 0.1
_BLOCK_S = 0.2  # a call may block, and so long a thread takes at most to see that it is to end
_WAIT = struct.Struct("ll")
_LINGER = struct.pack("ii", 1, 0)
_JOIN_S = 10.0
_LATE_S, _CATCH_UP_S = 0.002, 0.005
_BUSY = 0.95


def limit_blocking(sock: socket.socket, seconds: float = _BLOCK_S) -> None:
    """Has its calls fail with BlockingIOError after so long."""
    sock.settimeout(None)
    limit = _WAIT.pack(int(seconds), max(1, int(seconds % 1 * 1e6)))
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, limit)


def readable(socks: Sequence[socket.socket], limit_s: float, alive: Callable[[], None]) -> bool:
    """Whether one of them has something to read, or has ended, before so long."""
    poll = select.poll()
    for sock in socks:
        poll.register(sock, select.POLLIN)
    end = time.perf_counter() + limit_s
    while not poll.poll(_TICK_S * 1000):
        alive()
        if time.perf_counter() >= end:
            return False
    return True


class Streams(ABC):
    """`counts` are the bytes that each stream has moved so far, written by its own thread alone.

    `peer` is how sentences name the other end, `silence` the one that is said when nothing moves for `deadline_s`,
    `ended` what they say of a stream that ends too early. After `watch`, `cpu_s` is this process's time on processors,
    user and kernel, in the `wall_s` of the run.
    """

    ended = "ended a stream"

    def __init__(self, socks: Sequence[socket.socket], peer: str, silence: str, deadline_s: float) -> None:
        self.socks = list(socks)
        self.peer = peer
        self.counts = [0] * len(self.socks)
        self.cpu_s = self.wall_s = 0.0
        self._silence = silence
        self._deadline_s = deadline_s
        self._stopping = False
        self._broken = threading.Event()
        self._why = ""
        self._began = 0.0
        self._moved = (0.0, 0)
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def _move(self, sock: socket.socket, place: int) -> None:
        """Moves bytes until the stream ends, or `_stopping` is set."""

    def watch(
        self, warmup_s: float, run_s: float, alive: Callable[[], None]
    ) -> Iterator[tuple[float, Sequence[int], bool]]:
        """Begins all streams together; then, ten times a second: seconds since, counts, and whether they are the run's.

        The first and the last that are, are its edges. LabError when a stream ends, or nothing moves.
        """
        self._begin()
        start, steps = self._began + warmup_s, max(1, round(run_s / _TICK_S))
        while (now := time.perf_counter()) + _TICK_S < start:
            yield *self._wait(now + _TICK_S, alive), False
        began_s, counts = self._wait(start, alive)
        cpu_s = time.process_time()
        yield began_s, counts, True
        for step in range(1, steps + 1):  # since the edge as it was, so that a late one makes no shorter run
            at_s, counts = self._wait(self._began + began_s + run_s * step / steps, alive)
            if step == steps:
                self.cpu_s, self.wall_s = time.process_time() - cpu_s, at_s - began_s
            yield at_s, counts, True

    def bounds(self, whose: str) -> list[str]:
        """That the run took nearly all that its processors could give these threads, in a sentence if it did."""
        if self.cpu_s < _BUSY * self.wall_s * min(len(os.sched_getaffinity(0)), len(self.socks)):
            return []
        return [f"the {whose} was on its processor for {_BUSY:.0%} of the run or more, so its host bounds this figure"]

    def join(self, limit_s: float) -> None:
        """Waits for the threads to end by themselves, no longer than that."""
        end = time.perf_counter() + limit_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.perf_counter()))

    def close(self) -> None:
        """Ends all threads and all sockets, and throws away what their kernel still has to send; twice is no error."""
        self._stopping = True
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.join(_JOIN_S)
        for sock in self.socks:
            sock.close()

    def _begin(self) -> None:
        together = threading.Barrier(len(self.socks) + 1)
        for place, sock in enumerate(self.socks):
            limit_blocking(sock)
            thread = threading.Thread(target=self._work, args=(sock, place, together), daemon=True)
            thread.start()
            self._threads.append(thread)
        together.wait(_JOIN_S)
        self._began = time.perf_counter()
        self._moved = (self._began, 0)

    def _wait(self, until: float, alive: Callable[[], None]) -> tuple[float, list[int]]:
        """Sleeps until then; gives the seconds since the beginning and the counts at one instant."""
        self._broken.wait(max(0.0, until - time.perf_counter()))
        alive()
        if time.perf_counter() - until > _LATE_S:
            time.sleep(_CATCH_UP_S)  # this process did not run, and what came meanwhile is still to be read
        now, counts = time.perf_counter(), self.counts.copy()
        if self._broken.is_set():
            raise LabError(f"{self.peer} {self._why}, {now - self._began:.1f} s after its streams began")
        if (total := sum(counts)) != self._moved[1]:
            self._moved = (now, total)
        elif now - self._moved[0] >= self._deadline_s:
            raise LabError(f"{self._silence} within {self._deadline_s:g} s")
        return now - self._began, counts

    def _work(self, sock: socket.socket, place: int, together: threading.Barrier) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(_JOIN_S)
        try:
            self._move(sock, place)
            why = self.ended
        except OSError as error:
            kind = failure_kind(error)
            why = "reset a stream" if kind == "reset" else f"cannot be reached any more ({kind})"
        if not self._stopping:
            self._why = self._why or why
            self._broken.set()
