"""Batches of messages in one system call: sendmmsg(2), recvmmsg(2) and UDP segmentation, by ctypes.

Each datagram begins with a header of two words. All headers of a batch are adjacent in one array, and the rest of all
datagrams shares one piece of memory that nobody reads: so a batch costs Python as much as a single datagram. The writes
of a stream all have the same content.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from array import array
from collections.abc import Callable, Iterator

from pytest_ipperf.agent.sockets.receive_timestamps import SO_TIMESTAMPNS, TIMESTAMP_SPACE

HEAD_BYTES = 16
STAMP_WORDS = 4
"""Words of a control message with a timestamp; the last two are seconds and nanoseconds of CLOCK_REALTIME."""
UDP_SEGMENT, UDP_GRO = 103, 104
SOL_UDP = 17
_WAITFORONE = 0x10000
_STAMP_BYTES = 8 * STAMP_WORDS
# Layout of a `struct mmsghdr` on 64-bit machines, in words.
_WORDS, _IOV, _IOVS, _CONTROL, _CONTROL_BYTES, _LENGTH = 8, 2, 3, 4, 5, 7

Received = tuple[memoryview, memoryview]
"""Words of the headers, in the order of their datagrams, and of the timestamps, where they are kept."""


class UnsupportedError(Exception):
    """Python or the system lacks a batch call; plain calls work instead."""


class _Batch:
    """Memory of `messages` messages, each of `segments` datagrams of `size` bytes with a header of `head_bytes`."""

    def __init__(
        self,
        name: str,
        size: int,
        messages: int,
        segments: int,
        *,
        extra_arguments: int = 0,
        head_bytes: int = HEAD_BYTES,
    ) -> None:
        self._call, self._error = _libc_function(name, extra_arguments)
        self.size, self.messages, self.segments = size, messages, segments
        self.head_words = head_bytes // 8
        self._heads = array("Q", bytes(head_bytes * messages * segments))
        self._rest = array("B", bytes(max(1, size - head_bytes)))
        self._parts = array("Q")
        heads, rest = self._heads.buffer_info()[0], self._rest.buffer_info()[0]
        for number in range(messages * segments):
            self._parts.extend((heads + head_bytes * number, head_bytes, rest, size - head_bytes))
        self._table = array("Q", bytes(8 * _WORDS * messages))
        for number in range(messages):
            at = _WORDS * number
            self._table[at + _IOV] = self._parts.buffer_info()[0] + 32 * segments * number
            self._table[at + _IOVS] = 2 * segments
        self.words = memoryview(self._heads)
        self._there = self._table.buffer_info()[0]


class SendBatch(_Batch):
    """Datagrams to send on a connected socket; their headers are written to `words` before each `send`.

    With more than one segment, the kernel or the device splits each message (udp(7), UDP_SEGMENT).
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
        """Send the batch; return how many datagrams have gone, from the first on. Raise OSError if none has."""
        while (count := self._call(self._fd, self._there, self.messages, 0)) < 0:
            _raise_unless_interrupted(self._error())
        return count * self.segments


class WriteBatch:
    """Writes of one content to a stream in one system call, each still a write of its own to the kernel.

    One by one, small writes cost Python more than the kernel: at 32 bytes a batch carries 1.7 times as many, at 512
    bytes 1.5 times.
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
        """Write the batch, or as much as the socket accepts; return the bytes, or raise OSError like `socket.send`."""
        while (count := self._call(self._fd, self._there, self._messages, 0)) < 0:
            _raise_unless_interrupted(self._error())
        return (count - 1) * len(self._content) + self._table[_WORDS * (count - 1) + _LENGTH]


class ReceiveBatch(_Batch):
    """Datagrams received on a bound socket, of up to `size` bytes; at most `segments`, all of that size, in a message.

    `lengths` are the sizes of the datagrams that were read last, where each message is one.
    """

    def __init__(
        self, sock: socket.socket, size: int, messages: int, segments: int = 1, *, head_bytes: int = HEAD_BYTES
    ) -> None:
        super().__init__("recvmmsg", size, messages, segments, extra_arguments=1, head_bytes=head_bytes)
        self.lengths = array("Q")
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
        """Wait for a datagram and yield all that are queued, a batch at most; OSError after the socket's time-out.

        The yielded words are valid until the next read. Stray datagrams have a header of zeros, or none.
        """
        if self.segments == 1:  # a datagram shorter than the header must not show an earlier header
            self.words[:] = self._zeros[: len(self.words)]
            self._stamped[:] = self._zeros
            self._view[_CONTROL_BYTES::_WORDS] = memoryview(self._room)
        while (count := self._call(self._fd, self._there, self.messages, _WAITFORONE, None)) < 0:
            _raise_unless_interrupted(self._error())
        if self.segments == 1:
            self.lengths = self._table[_LENGTH : _WORDS * count : _WORDS]
            yield self.words[: self.head_words * count], self._stamped[: STAMP_WORDS * count]
            return
        for number in range(count):
            datagrams, rest = divmod(self._table[_WORDS * number + _LENGTH], self.size)
            if datagrams and not rest:
                at = 2 * self.segments * number
                yield self.words[at : at + 2 * datagrams], self._stamped[:0]


class SingleReceiver:
    """Receiver for systems without recvmmsg: one datagram with each call."""

    def __init__(self, sock: socket.socket, size: int, *, head_bytes: int = HEAD_BYTES) -> None:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._sock = sock
        self._head, self._rest = bytearray(head_bytes), bytearray(size)
        self.messages = 1
        self.lengths = array("Q", [0])

    def read(self) -> Iterator[Received]:
        """Yield one datagram."""
        self._head[:] = bytes(len(self._head))
        self.lengths[0], ancillary, _, _ = self._sock.recvmsg_into([self._head, self._rest], TIMESTAMP_SPACE)
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
        raise UnsupportedError(f"{name}: this machine's architecture is not supported")
    try:
        import ctypes  # noqa: PLC0415 - a Python may be built without it

        call = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (ImportError, OSError, AttributeError) as error:
        raise UnsupportedError(f"{name}: {error}") from error
    call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, *[ctypes.c_void_p] * extra_arguments]
    return call, ctypes.get_errno


def _raise_unless_interrupted(number: int) -> None:
    """Raise the OSError of that number, unless the process was stopped, and has gone on, during the call (PEP 475)."""
    if number != errno.EINTR:
        raise OSError(number, os.strerror(number))
