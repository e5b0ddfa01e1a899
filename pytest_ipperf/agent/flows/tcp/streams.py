"""Streams: connected TCP sockets, each with a thread of its own that blocks in the kernel.

Python's global lock is no limit, as a thread releases it in the kernel, which copies 64 KiB and more at once. A
socket's own time-outs (SO_SNDTIMEO, SO_RCVTIMEO) need no poll(2) for each call, as `settimeout` does.
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
"""Message of the receiver on each stream at the end of its run."""
DRAIN_S = 0.2
"""Seconds after the run in which the data left in the sender's kernel may arrive, before it is discarded.

Megabytes would otherwise keep a slow link busy for seconds, and disturb the next run.
"""
_TICK_S = 0.1
_ERRORS_S = 0.001
_BLOCK_S = 0.2  # longest time that a call blocks, and so that a thread takes to notice that it has to end
_WAIT = struct.Struct("ll")
_LINGER = struct.pack("ii", 1, 0)
_JOIN_S = 10.0
_LATE_S, _CATCH_UP_S = 0.002, 0.005
_BUSY = 0.95


def limit_blocking(sock: socket.socket, seconds: float = _BLOCK_S) -> None:
    """Let calls of the socket fail with BlockingIOError after so many seconds."""
    sock.settimeout(None)
    limit = _WAIT.pack(int(seconds), max(1, int(seconds % 1 * 1e6)))
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, limit)


def readable(socks: Sequence[socket.socket], limit_s: float, alive: Callable[[], None]) -> bool:
    """Return whether, within `limit_s`, one of the sockets has something to read or has ended."""
    poll = select.poll()
    for sock in socks:
        poll.register(sock, select.POLLIN)
    end = time.perf_counter() + limit_s
    while True:
        found = [events for _, events in poll.poll(_TICK_S * 1000)]
        if any(events != select.POLLERR for events in found):
            return True
        alive()
        if time.perf_counter() >= end:
            return False
        if found:  # a socket with completions of MSG_ZEROCOPY is in error; a broken one can be read too
            time.sleep(_ERRORS_S)


class Streams(ABC):
    """Streams of a run; `counts` are the bytes that each has moved so far, written by its own thread alone.

    Sentences name the other end by `peer`; `silence` is the one used when nothing moves for `deadline_s`, and `ended`
    describes a stream that ends too early. After `watch`, `cpu_s` is this process's processor time, user and kernel, in
    the `wall_s` of the run.
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
        """Move bytes until the stream ends, or `_stopping` is set."""

    def watch(
        self, warmup_s: float, run_s: float, alive: Callable[[], None]
    ) -> Iterator[tuple[float, Sequence[int], bool]]:
        """Begin all streams together; yield ten times a second: seconds since then, counts, and whether the run is on.

        The first and the last reading of the run are its limits. Raise LabError if a stream ends, or nothing moves.
        """
        self._begin()
        start, steps = self._began + warmup_s, max(1, round(run_s / _TICK_S))
        while (now := time.perf_counter()) + _TICK_S < start:
            yield *self._wait(now + _TICK_S, alive), False
        began_s, counts = self._wait(start, alive)
        cpu_s = time.process_time()
        yield began_s, counts, True
        for step in range(1, steps + 1):  # counted from the actual start, so that a late start makes no shorter run
            at_s, counts = self._wait(self._began + began_s + run_s * step / steps, alive)
            if step == steps:
                self.cpu_s, self.wall_s = time.process_time() - cpu_s, at_s - began_s
            yield at_s, counts, True

    def bounds(self, whose: str) -> list[str]:
        """Return a sentence if the run used nearly all of the processor time that these threads could get."""
        if self.cpu_s < _BUSY * self.wall_s * min(len(os.sched_getaffinity(0)), len(self.socks)):
            return []
        return [f"the {whose} was on its processor for {_BUSY:.0%} of the run or more, so its host bounds this figure"]

    def join(self, limit_s: float) -> None:
        """Wait up to `limit_s` seconds for the threads to end by themselves."""
        end = time.perf_counter() + limit_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.perf_counter()))

    def close(self) -> None:
        """End all threads and sockets, and discard data that their kernel still has to send; twice is no error."""
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
        """Sleep until that time; return the seconds since the beginning and the counts at one instant."""
        self._broken.wait(max(0.0, until - time.perf_counter()))
        alive()
        if time.perf_counter() - until > _LATE_S:
            time.sleep(_CATCH_UP_S)  # this process did not run, and data that came meanwhile is still to be read
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
