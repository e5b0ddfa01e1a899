"""Writers of a stream: functions that write the same bytes again and again, with or without copying them.

A write copies its data into the kernel. sendfile(2) gives the kernel the pages of a file in memory, and MSG_ZEROCOPY
those of the program (Linux, Documentation/networking/msg_zerocopy.rst). A path within one machine copies them in the
end, if not before; on a network card they are read from where they are.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator

from pytest_ipperf.agent.sockets.batch_io import UnsupportedError, WriteBatch
from pytest_ipperf.core.portable.errors import LabError

WRITE, SENDFILE, ZEROCOPY = "write", "sendfile", "zerocopy"
Writer = Callable[[], int]
"""Write once, and return how many bytes were accepted; raise BlockingIOError if none was in time."""

_SO_ZEROCOPY, _MSG_ZEROCOPY = 60, 0x4000000
_COMPLETION = struct.Struct("=IBBBxII")  # linux/errqueue.h: struct sock_extended_err
_ORIGIN_ZEROCOPY, _COPIED = 5, 1
_COMPLETIONS = 512
_WAIT_MS = 200
_BATCH = 64
_BATCHED_BYTES = 512  # for writes smaller than this, batches pay


class Writers:
    """Writers of the streams of a run, all of the same content; `kind` is one of the words of factor `sending`."""

    def __init__(self, kind: str, content: bytes) -> None:
        self._kind, self._content = kind, content
        self._file = _file_in_memory(content) if kind == SENDFILE else -1
        self._unpinned: list[ZeroCopyWriter] = []

    def writer(self, sock: socket.socket) -> Writer:
        """Return the writer of a stream."""
        if self._kind == SENDFILE:
            return functools.partial(os.sendfile, sock.fileno(), self._file, 0, len(self._content))
        if self._kind == ZEROCOPY:
            self._unpinned.append(ZeroCopyWriter(sock, self._content))
            return self._unpinned[-1].send
        if len(self._content) < _BATCHED_BYTES:
            with contextlib.suppress(UnsupportedError):
                return WriteBatch(sock, self._content, _BATCH).send
        return functools.partial(sock.send, self._content)

    def notes(self) -> Iterator[str]:
        """Yield a sentence if the kernel copied data that was to be sent without copying."""
        done, copied = (sum(getattr(each, name) for each in self._unpinned) for name in ("completed", "copied"))
        if copied:
            yield f"the sender's kernel copied {copied / done:.0%} of the writes with MSG_ZEROCOPY after all"

    def close(self) -> None:
        """Release the file; the kernel keeps its pages until they are sent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class ZeroCopyWriter:
    """Writer with MSG_ZEROCOPY; `completed` writes are known to be done, of which the kernel `copied` some."""

    def __init__(self, sock: socket.socket, content: bytes) -> None:
        self._sock, self._content = sock, content
        self.completed = self.copied = 0
        try:
            sock.setsockopt(socket.SOL_SOCKET, _SO_ZEROCOPY, 1)
        except OSError as error:
            raise LabError(f"this host's kernel has no MSG_ZEROCOPY: {error.strerror}") from error

    def send(self) -> int:
        """Write once; wait for earlier writes to be done if the kernel can note no more of them."""
        try:
            size = self._sock.send(self._content, _MSG_ZEROCOPY)
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # net.core.optmem_max
                raise
            poll = select.poll()
            poll.register(self._sock, 0)  # for POLLERR
            poll.poll(_WAIT_MS)
            size = 0
        self._read_completions()
        return size

    def _read_completions(self) -> None:
        flags = socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT
        with contextlib.suppress(BlockingIOError):
            while True:
                for _, _, data in self._sock.recvmsg(0, _COMPLETIONS, flags)[1]:
                    number, origin, _, code, first, last = _COMPLETION.unpack_from(data)
                    if origin == _ORIGIN_ZEROCOPY and not number:
                        self.completed += last - first + 1
                        self.copied += (last - first + 1) * (code == _COPIED)


def _file_in_memory(content: bytes) -> int:
    file = os.memfd_create("pytest-ipperf")
    with open(file, "wb", closefd=False) as writer:
        writer.write(content)
    return file
