"""Target of a burst, its sockets, and the kinds of their failures, for both clients."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import TypeVar

from pytest_ipperf.core.portable.dns import DnsAnswer
from pytest_ipperf.protocols.base import CONTENT, IP_BIND_ADDRESS_NO_PORT

_Socket = TypeVar("_Socket", bound=socket.SocketType)

RETRY_S = (1.0, 2.0, 4.0)
"""Seconds after which an unanswered query is repeated: RFC 1035 leaves them to the resolver; these are usual values."""


@dataclass(frozen=True)
class Target:
    """Target of a burst, all in literal addresses, so that it cannot leave the arm's address family.

    Without a `resolver`, `name` is an address and nothing is looked up. Without a `source`, which measurements always
    have, the kernel chooses one, and a burst of the lean client asks for that once.
    `addresses` are the resolver's complete right answer; any other answer is a failure.
    """

    family: int
    resolver: tuple[str, int] | None
    name: str
    port: int
    source: str
    addresses: tuple[str, ...] = ()


def bound_socket(target: Target, kind: int) -> socket.socket:
    """Return a non-blocking socket of the target's family, bound to its source; raise OSError if that fails."""
    return _bound(socket.socket(target.family, kind | socket.SOCK_NONBLOCK), target, kind)


def bare_socket(target: Target, kind: int) -> socket.SocketType:
    """Return such a socket of the type that `socket.socket` extends, which opens and closes in a microsecond less."""
    sock = socket.SocketType(target.family, kind | socket.SOCK_NONBLOCK)
    return _bound(sock, target, kind) if target.source else sock


def _bound(sock: _Socket, target: Target, kind: int) -> _Socket:
    try:
        if target.source:
            if kind == socket.SOCK_STREAM:
                # The port is then chosen once the peer is known, and may equal that of a connection closed in the last
                # minute: the search for a port that no such connection has took milliseconds and could find only 28000.
                sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((target.source, 0))
    except BaseException:
        sock.close()
        raise
    return sock


def failure_kind(error: OSError) -> str:
    """Return a failure's kind in a word or two: `refused`, `reset`, `unreachable`."""
    words = {
        errno.ECONNREFUSED: "refused",
        errno.ECONNRESET: "reset",
        errno.EPIPE: "reset",
        errno.EHOSTUNREACH: "unreachable",
        errno.ENETUNREACH: "unreachable",
        errno.ETIMEDOUT: "timed out",
        errno.EMFILE: "out of file descriptors",
        errno.EADDRNOTAVAIL: "no source address",
        errno.EADDRINUSE: "out of ports",
    }
    return words.get(error.errno or 0, errno.errorcode.get(error.errno or 0, type(error).__name__))


def answer_failure(answer: DnsAnswer) -> str:
    """Return how a look-up without a right answer failed, as failures are counted."""
    return f"{CONTENT}: dns: {answer.trouble}" if answer.differs else f"dns {answer.trouble}"


def connect_kind(code: int) -> str:
    """Return why connecting failed; the source was bound, so EADDRNOTAVAIL means that no port was left."""
    return "out of ports" if code == errno.EADDRNOTAVAIL else failure_kind(OSError(code, ""))
