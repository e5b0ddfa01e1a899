"""Target of a burst, its sockets, and the kinds of their failures; the same for both clients."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from pytest_ipperf.core.portable.dns import DnsAnswer
from pytest_ipperf.protocols.base import CONTENT, IP_BIND_ADDRESS_NO_PORT

RETRY_S = (1.0, 2.0, 4.0)
"""When a query without an answer is repeated: RFC 1035 leaves that to the resolver; this is the usual stub's."""


@dataclass(frozen=True)
class Target:
    """Where a burst goes: all literal addresses, so that the arm's family cannot be left.

    Without a `resolver`, `name` is an address and nothing is looked up; without a `source`, the kernel chooses one.
    `addresses` are what the resolver has to answer, all of them; any other answer is a failure.
    """

    family: int
    resolver: tuple[str, int] | None
    name: str
    port: int
    source: str
    addresses: tuple[str, ...] = ()


def bound_socket(target: Target, kind: int) -> socket.socket:
    """A socket of the target's family, not blocking, bound to its source; OSError where it cannot be had."""
    sock = socket.socket(target.family, kind | socket.SOCK_NONBLOCK)
    try:
        if target.source:
            if kind == socket.SOCK_STREAM:
                # The port is then chosen when the peer is known, and need not differ from that of every connection
                # closed in the last minute: searching for such a one took milliseconds, and 28000 were all there are.
                sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((target.source, 0))
    except BaseException:
        sock.close()
        raise
    return sock


def failure_kind(error: OSError) -> str:
    """A failure's kind in a word or two: `refused`, `reset`, `unreachable`."""
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
    """Return how a look-up failed whose answer is no right one, as failures are counted."""
    return f"{CONTENT}: dns: {answer.trouble}" if answer.differs else f"dns {answer.trouble}"


def connect_kind(code: int) -> str:
    """The kind of a failure to connect: a source that a socket has is this host's, so what was not there was a port."""
    return "out of ports" if code == errno.EADDRNOTAVAIL else failure_kind(OSError(code, ""))
