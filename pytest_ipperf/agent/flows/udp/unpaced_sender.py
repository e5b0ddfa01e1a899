"""Unpaced sender of numbered datagrams, as fast as one processor can, many with each system call."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pytest_ipperf.agent.flows.udp.sequence import SequenceHeaders
from pytest_ipperf.agent.sockets.batch_io import HEAD_BYTES, SOL_UDP, UDP_SEGMENT, SendBatch, UnsupportedError

_MESSAGES, _BATCH_BYTES = 64, 2**18
"""Most datagrams and bytes of one system call, which may have to wait until a link has taken all of them."""
_SEGMENTS = (128, 64)  # UDP_MAX_SEGMENTS of newer and of older kernels
_MOST_BYTES = 65507
_CALLS = 16  # between two calls of `alive`
_WAIT = struct.pack("ll", 0, 500_000)  # for buffer space, in s and us
_NO_ROOM = (errno.EAGAIN, errno.ENOBUFS)
# Errors of a kernel that cannot split segments for this device, or not so many.
_NO_SEGMENTS = (errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EOPNOTSUPP, errno.ENOPROTOOPT)


class _Writer(Protocol):
    segments: int
    words: memoryview

    def send(self) -> int: ...


@dataclass(frozen=True)
class UnpacedResult:
    """Datagrams accepted by the kernel in how many seconds, from which instant on, and how often it had no room."""

    sent: int
    seconds: float
    began_ns: int
    refused: int


class UnpacedSender:
    """Sender of datagrams of `size` bytes by a connected socket.

    `how` names its system calls, `segments` the number of datagrams into which the kernel splits each message. The
    kernel splits none that are too large for the path, which have to be sent in fragments: `cut` is false then.
    """

    def __init__(self, sock: socket.socket, size: int, *, cut: bool) -> None:
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _WAIT)
        self._sock, self._size = sock, size
        self._ways = iter(_ways(sock, size, cut=cut))
        self._why: list[str] = []
        self._next()

    @property
    def segments(self) -> int:
        """Return the number of datagrams in one message; 1 if the kernel splits nothing."""
        return self._box.segments

    def _next(self) -> None:
        """Switch to the fastest remaining way."""
        for how, make in self._ways:
            try:
                self._box = make()
            except UnsupportedError as error:
                self._why.append(str(error))
            else:
                self.how = "; ".join([how, *self._why])
                return

    def send(self, word: int, lasts_s: float, alive: Callable[[], None]) -> UnpacedResult:
        """Send as many as possible in that time, with headers that begin with `word` and the words after it."""
        numbers = SequenceHeaders(word)
        began_ns = now = time.monotonic_ns()
        end_ns, sent, refused, too_large_at = began_ns + round(lasts_s * 1e9), 0, 0, -1
        while now < end_ns:
            alive()
            box, words = self._box, self._box.words
            datagrams = len(words) // 2
            try:
                for _ in range(_CALLS):
                    words[::2] = numbers.words(word + sent, datagrams)
                    sent += box.send()
                    if time.monotonic_ns() >= end_ns:
                        break
            except OSError as error:
                if error.errno in _NO_SEGMENTS and box.segments > 1:
                    self._give_up(error)
                elif error.errno in _NO_ROOM:
                    refused += 1
                elif error.errno == errno.EMSGSIZE and sent > too_large_at:
                    too_large_at = sent  # the kernel reports a router's report once, and then sends fragments
                else:
                    raise
            now = time.monotonic_ns()
        return UnpacedResult(sent, (now - began_ns) / 1e9, began_ns, refused)

    def _give_up(self, error: OSError) -> None:
        self._why.append(f"UDP_SEGMENT x{self.segments}: {error.strerror}")
        self._sock.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
        self._next()


def _ways(sock: socket.socket, size: int, *, cut: bool) -> Iterable[tuple[str, Callable[[], _Writer]]]:
    most = _MOST_BYTES // size
    for segments in dict.fromkeys(min(each, most) for each in _SEGMENTS) if cut and most > 1 else ():
        yield f"sendmmsg, UDP_SEGMENT x{segments}", partial(SendBatch, sock, size, 1, segments)
    messages = max(1, min(_MESSAGES, _BATCH_BYTES // size))
    yield f"sendmmsg x{messages}", partial(SendBatch, sock, size, messages)
    yield "send", partial(_Plain, sock, size)


class _Plain:
    """Writer of one datagram with each call."""

    segments = 1

    def __init__(self, sock: socket.socket, size: int) -> None:
        self._sock, self._datagram = sock, bytearray(size)
        self.words = memoryview(self._datagram)[:HEAD_BYTES].cast("Q")

    def send(self) -> int:
        self._sock.send(self._datagram)
        return 1
