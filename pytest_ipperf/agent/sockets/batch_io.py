"""Batches of messages in one system call: sendmmsg(2), recvmmsg(2) and UDP segmentation, by ctypes.

Each datagram begins with a head of two words. All heads of a batch lie one after another in one array, and all the
rest of them in the same place, which nobody reads: so a batch costs Python as much as a datagram would. The writes of
a stream all have one content.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from array import array
from collections.abc import Callable, Iterator

from pytest_ipperf.agent.sockets.receive_timestamps import SO_TIMESTAMPNS, TIMESTAMP_SPACE

HEAD_BYTES = 16
STAMP_WORDS = 4
"""Of the control message with a stamp; the last two are seconds and nanoseconds of CLOCK_REALTIME."""
UDP_SEGMENT, UDP_GRO = 103, 104
SOL_UDP = 17
_WAITFORONE = 0x10000
_STAMP_BYTES = 8 * STAMP_WORDS
# The words of a `struct mmsghdr` on machines with words of 8 bytes.
_WORDS, _IOV, _IOVS, _CONTROL, _CONTROL_BYTES, _LENGTH = 8, 2, 3, 4, 5, 7

Received = tuple[memoryview, memoryview]
"""The words of some heads, in the order of their datagrams, and those of their stamps, where these are kept."""


class UnsupportedError(Exception):
    """Raised where Python or the system lacks such a call; plain calls do."""


class _Batch:
    """The memory of so many messages, each of so many datagrams of `size` bytes."""

    def __init__(self, name: str, size: int, messages: int, segments: int, *, extra_arguments: int = 0) -> None:
        self._call, self._error = _libc_function(name, extra_arguments)
        self.size, self.messages, self.segments = size, messages, segments
        self._heads = array("Q", bytes(HEAD_BYTES * messages * segments))
        self._rest = array("B", bytes(max(1, size - HEAD_BYTES)))
        self._parts = array("Q")
        heads, rest = self._heads.buffer_info()[0], self._rest.buffer_info()[0]
        for number in range(messages * segments):
            self._parts.extend((heads + HEAD_BYTES * number, HEAD_BYTES, rest, size - HEAD_BYTES))
        self._table = array("Q", bytes(8 * _WORDS * messages))
        for number in range(messages):
            at = _WORDS * number
            self._table[at + _IOV] = self._parts.buffer_info()[0] + 32 * segments * number
            self._table[at + _IOVS] = 2 * segments
        self.words = memoryview(self._heads)
        self._there = self._table.buffer_info()[0]


class SendBatch(_Batch):
    """Datagrams to go by a connected socket; `words` holds their heads, to be written before each `send`.

    With more than one segment, the kernel or the device cuts up each message (udp(7), UDP_SEGMENT).
    """

    def __init__(self, sock: socket.socket, size: int, messages: int, segments: int = 1) -> None:
        super().__init__("sendmmsg", size, messages, segments)
        self._fd = sock.fileno()
        if segments > 1:
            try:
                sock.setsockopt(SOL_UDP, UDP_SEGMENT, size)
            except OSError as error:
                raise UnsupportedError(f"UDP_SEGMENT: {error.strerror}") from error

    def send(self) -> int:
        """How many of them have gone, from the first one on; OSError where none has."""
        count = self._call(self._fd, self._there, self.messages, 0)
        if count < 0:
            raise _os_error(self._error)
        return count * self.segments


class WriteBatch:
    """So many writes of one content to a stream, each still one of its own to the kernel.

    One by one, small ones cost Python more than the kernel: of 32 bytes a batch carries 1.7 times as many, of 512 1.5
    times.
    """

    def __init__(self, sock: socket.socket, content: bytes, messages: int) -> None:
        self._call, self._error = _libc_function("sendmmsg", 0)
        self._fd, self._messages = sock.fileno(), messages
        self._content = array("B", content)
        self._part = array("Q", self._content.buffer_info())
        self._table = array("Q", bytes(8 * _WORDS * messages))
        for at in range(0, len(self._table), _WORDS):
            self._table[at + _IOV], self._table[at + _IOVS] = self._part.buffer_info()[0], 1
        self._there = self._table.buffer_info()[0]

    def send(self) -> int:
        """All of them, or what of them the socket takes; the bytes, or OSError as of `socket.send`."""
        count = self._call(self._fd, self._there, self._messages, 0)
        if count < 0:
            raise _os_error(self._error)
        return (count - 1) * len(self._content) + self._table[_WORDS * (count - 1) + _LENGTH]


class ReceiveBatch(_Batch):
    """Datagrams that come to a bound socket, all of `size` bytes; `segments`, as many as may come in one message."""

    def __init__(self, sock: socket.socket, size: int, messages: int, segments: int = 1) -> None:
        super().__init__("recvmmsg", size, messages, segments, extra_arguments=1)
        self._fd = sock.fileno()
        self._stamps = array("Q", bytes(_STAMP_BYTES * messages))
        self._room = array("Q", [_STAMP_BYTES]) * messages
        self._view, self._stamped = memoryview(self._table), memoryview(self._stamps)
        for number in range(messages):
            self._table[_WORDS * number + _CONTROL] = self._stamps.buffer_info()[0] + _STAMP_BYTES * number
        self._zeros = memoryview(array("Q", bytes(_STAMP_BYTES * messages)))
        if segments > 1:
            try:
                sock.setsockopt(SOL_UDP, UDP_GRO, 1)
            except OSError as error:
                raise UnsupportedError(f"UDP_GRO: {error.strerror}") from error
        else:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def read(self) -> Iterator[Received]:
        """Waits for one and takes what is there, a batch at most; OSError where nothing comes in the socket's time.

        What is taken holds until the next one is. Strays have a head of zeros, or none.
        """
        if self.segments == 1:  # what is shorter than a head must not show that of another
            self.words[:] = self._zeros[: len(self.words)]
            self._stamped[:] = self._zeros
            self._view[_CONTROL_BYTES::_WORDS] = memoryview(self._room)
        count = self._call(self._fd, self._there, self.messages, _WAITFORONE, None)
        if count < 0:
            raise _os_error(self._error)
        if self.segments == 1:
            yield self.words[: 2 * count], self._stamped[: STAMP_WORDS * count]
            return
        for number in range(count):
            datagrams, rest = divmod(self._table[_WORDS * number + _LENGTH], self.size)
            if datagrams and not rest:
                at = 2 * self.segments * number
                yield self.words[at : at + 2 * datagrams], self._stamped[:0]


class SingleReceiver:
    """The same where there is no recvmmsg: one datagram with each call."""

    def __init__(self, sock: socket.socket, size: int) -> None:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._sock = sock
        self._head, self._rest = bytearray(HEAD_BYTES), bytearray(size)
        self.messages = 1

    def read(self) -> Iterator[Received]:
        """One datagram."""
        self._head[:] = bytes(HEAD_BYTES)
        _, ancillary, _, _ = self._sock.recvmsg_into([self._head, self._rest], TIMESTAMP_SPACE)
        stamp = array("Q", bytes(_STAMP_BYTES))
        for _, kind, value in ancillary:
            if kind == SO_TIMESTAMPNS:
                stamp[2], stamp[3] = struct.unpack("ll", value)
        yield memoryview(self._head).cast("Q"), memoryview(stamp)


def _libc_function(name: str, extra_arguments: int) -> tuple[Callable[..., int], Callable[[], int]]:
    """Return the C library's function of that name, and one that returns errno.

    `extra_arguments` counts those after the first four.
    """
    if sys.byteorder != "little" or struct.calcsize("P") != 8:
        raise UnsupportedError(f"{name}: the layout of this machine's memory is another")
    try:
        import ctypes  # noqa: PLC0415 - a Python may be built without it

        call = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (ImportError, OSError, AttributeError) as error:
        raise UnsupportedError(f"{name}: {error}") from error
    call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, *[ctypes.c_void_p] * extra_arguments]
    return call, ctypes.get_errno


def _os_error(error: Callable[[], int]) -> OSError:
    number = error()
    return OSError(number, os.strerror(number))
