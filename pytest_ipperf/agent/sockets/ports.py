"""Ports of this host: free ones, and readiness of a server."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from pytest_ipperf.core.portable.errors import LabError


def in_use(address: str, port: int, kind: socket.SocketKind) -> bool:
    """Return whether a socket of this kind uses the port already; raise LabError if the address is not this host's."""
    family, where = _sockaddr(address, port)
    with socket.socket(family, kind) as sock:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if kind == socket.SOCK_STREAM:  # connections in TIME_WAIT do not keep a server from listening
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(where)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return True
            raise LabError(
                f"a server cannot listen on address {address}: {error.strerror}; it has to be an address of this host"
            ) from None
    return False


def free_port(addresses: Sequence[str], low: int, high: int, rng: random.Random, besides: Collection[int] = ()) -> int:
    """Return a random port that neither TCP nor UDP uses on any of the addresses; raise LabError if there is none.

    Ports of `besides` are promised to others.
    """
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    for port in _in_random_order(range(low, high + 1), rng):
        if port not in besides and not any(in_use(address, port, kind) for address in addresses for kind in kinds):
            return port
    raise LabError(f"no free port in {low}-{high} on {listed(addresses)}; free one or widen 'ports' in hosts.ini")


def _in_random_order(ports: range, rng: random.Random) -> Iterator[int]:
    """Yield ports as from a shuffled list, without making one of the thousands of which the first is mostly free."""
    moved: dict[int, int] = {}
    for last in reversed(range(len(ports))):
        at = rng.randrange(last + 1)
        chosen, moved[at] = moved.get(at, at), moved.get(last, last)
        yield ports[chosen]


def is_local(address: str) -> bool:
    """Return whether an address is one of this host's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((address, 0))
    except OSError:
        return False
    return True


def probe_ready(address: str, port: int, kind: socket.SocketKind, probe: tuple[bytes, bytes], wait_s: float) -> str:
    """Send the first half of the probe and wait for the second; return why it did not come, empty if it did."""
    family, where = _sockaddr(address, port)
    request, expected = probe
    answer = b""
    with socket.socket(family, kind) as sock:
        sock.settimeout(wait_s)
        try:
            sock.connect(where)
            sock.sendall(request)
            if kind == socket.SOCK_DGRAM:
                answer = sock.recv(4096)
            while len(answer) < len(expected) and kind == socket.SOCK_STREAM and (data := sock.recv(4096)):
                answer += data
        except OSError as error:
            return error.strerror or str(error)
    return "" if answer.startswith(expected) else f"it answered {answer[:60]!r} instead of {expected!r}"


def _sockaddr(address: str, port: int) -> tuple[socket.AddressFamily, Any]:
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        raise LabError(f"address {address!r} is not an IP address such as 198.18.0.2 or 2001:2::2") from None
    return found[0][0], found[0][4]


def listed(words: Sequence[str]) -> str:
    """Return the words as a list in a sentence: `127.0.0.1 and ::1`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
