"""Requests to the kernel by netlink (RFC 3549), as a bare host may have neither `ip`, `tc` nor `ss`."""

from __future__ import annotations

import os
import socket
import struct

ROUTE, SOCK_DIAG = 0, 4
"""Netlink families: routes, devices and addresses; sockets."""

_REQUEST, _MULTI, _ACKNOWLEDGE, _DUMP, _NEW = 1, 2, 4, 0x300, 0x600
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_TYPE = 0x3FFF  # without the flags of an attribute
_WAIT_S = 2


def ask(kind: int, body: bytes, *, dump: bool = False, family: int = ROUTE) -> list[bytes]:
    """Return the bodies of the replies to a message of that kind; raise OSError if the kernel refuses it."""
    flags = _REQUEST | (_DUMP if dump else 0)
    found: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as sock:
        sock.settimeout(_WAIT_S)
        sock.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
        while True:
            answer, at = sock.recv(65536), 0
            while at < len(answer):
                size, message_type, flags, _, _ = _HEADER.unpack_from(answer, at)
                if message_type == _ERROR:
                    number = -struct.unpack_from("=i", answer, at + _HEADER.size)[0]
                    raise OSError(number, os.strerror(number))
                if message_type == _DONE:
                    return found
                found.append(answer[at + _HEADER.size : at + size])
                if not flags & _MULTI:
                    return found
                at += _padded(size)


def order(kind: int, body: bytes, *, new: bool = True, family: int = ROUTE) -> None:
    """Have the kernel change something, which must not exist yet if it is `new`; raise OSError if it refuses."""
    flags = _REQUEST | _ACKNOWLEDGE | (_NEW if new else 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as sock:
        sock.settimeout(_WAIT_S)
        sock.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
        answer = sock.recv(65536)
    number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
    if number:
        raise OSError(number, os.strerror(number))


def attribute(name: int, value: bytes) -> bytes:
    """Return an attribute to send."""
    return struct.pack("=HH", 4 + len(value), name) + value.ljust(_padded(len(value)), b"\0")


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes of a reply, or those nested in an attribute."""
    found, at = {}, 0
    while at < len(data):
        size, name = struct.unpack_from("=HH", data, at)
        found[name & _TYPE] = data[at + 4 : at + size]
        at += _padded(size)
    return found


def _padded(size: int) -> int:
    return (size + 3) & ~3
