"""Path MTU of the reverse direction, probed by don't-fragment datagrams from the server's host to the client's.

The client's host sends a request first, so that a stateful firewall or a NAT lets the answer in.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Collection

from pytest_ipperf.core.portable.errors import LabError

_WAIT_S = 0.5
_MOST_BYTES = 65535
_LOST = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPERM, errno.EACCES}


class PmtuReflector:
    """Sender of the probes, at the server's address, on that port."""

    def __init__(self, address: str, port: int) -> None:
        self._six = ":" in address
        self._sock = _bound(address, port)
        level, option = (socket.IPPROTO_IPV6, 23) if self._six else (socket.IPPROTO_IP, 10)
        self._sock.setsockopt(level, option, 3)  # IPV6_MTU_DISCOVER, IP_MTU_DISCOVER: PROBE
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _MOST_BYTES)

    def send(self, packets_bytes: Collection[int]) -> list[int]:
        """Send packets of these sizes to the next prober, the largest first; return those that this host refused."""
        refused = []
        with contextlib.suppress(TimeoutError):
            _, prober = self._sock.recvfrom(1)
            for size in sorted(packets_bytes, reverse=True):
                try:
                    self._sock.sendto(bytes(size - _headers(six=self._six)), prober)
                except OSError as error:
                    if error.errno == errno.EMSGSIZE:
                        refused.append(size)
                    elif error.errno not in _LOST:
                        raise
        return refused

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class PmtuProber:
    """Receiver of a reflector's probes, which it requests, at the client's address."""

    def __init__(self, source: str, address: str, port: int) -> None:
        self._six = ":" in source
        self._sock = _bound(source, 0)
        with contextlib.suppress(OSError):  # without a route nothing comes, which is the answer
            self._sock.connect((address, port))

    def request(self) -> None:
        """Request the probes, once, or once more if nothing came."""
        with contextlib.suppress(OSError):
            self._sock.send(b"?")

    def received(self, packet_bytes: int) -> list[int]:
        """Return the sizes of the packets received, up to the first of that size, or to silence.

        Packets sent before that one have come before it, or never will.
        """
        found: list[int] = []
        with contextlib.suppress(OSError):
            while packet_bytes not in found:
                found.append(len(self._sock.recv(_MOST_BYTES)) + _headers(six=self._six))
        return found

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def _headers(*, six: bool) -> int:
    return (40 if six else 20) + 8


def _bound(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(_WAIT_S)
    try:
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        raise LabError(f"no probe of the way back on {address}: {error.strerror}") from error
    return sock
