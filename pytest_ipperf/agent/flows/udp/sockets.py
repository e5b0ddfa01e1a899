"""Sockets of a datagram stream: their buffers, their path, and errors of the kernel."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Iterator
from typing import Any

from pytest_ipperf.agent.flows.spec import FlowSpec
from pytest_ipperf.agent.kernel.qdiscs import disciplines
from pytest_ipperf.agent.paths.routes import route
from pytest_ipperf.agent.sockets.buffers import set_buffer_size
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import LabError

HEADERS_BYTES = {4: 28, 6: 48}
"""Bytes of the IP and UDP headers, by IP version."""
_RECEIVE_BYTES, _SEND_BYTES = 1 << 26, 1 << 22
_TRIES = 3


def bound(spec: FlowSpec) -> tuple[socket.socket, int, dict[str, int]]:
    """Return a socket on a free port, its port and its buffer; try again if somebody else takes the port first."""
    for attempt in range(_TRIES):
        port = free_port([spec.address], *spec.ports, random.Random())  # noqa: S311 - not a secret
        sock = _socket(spec.address)
        try:
            sock.bind((spec.address, port))
        except OSError as error:
            sock.close()
            if attempt == _TRIES - 1:
                raise LabError(f"no datagrams can be received on {spec.address}: {error.strerror}") from error
        else:
            return sock, port, _room(sock, socket.SO_RCVBUF, _RECEIVE_BYTES)
    raise AssertionError


@contextlib.contextmanager
def connected(spec: FlowSpec, port: int) -> Iterator[socket.socket]:
    """Yield a non-blocking socket connected to that port of the far end; raise LabError if there is no route."""
    with _socket(spec.address) as sock:
        with explained(spec, port):
            if spec.source:
                sock.bind((spec.source, 0))
            sock.connect((spec.address, port))
        sock.settimeout(0)
        yield sock


def enlarge_buffers(sock: socket.socket) -> None:
    """Give a socket that sends and receives the buffers of a stream's two ends."""
    _room(sock, socket.SO_RCVBUF, _RECEIVE_BYTES)
    _room(sock, socket.SO_SNDBUF, _SEND_BYTES)


def path_properties(spec: FlowSpec, sock: socket.socket) -> dict[str, Any]:
    """Return the sender's buffer, its device and qdisc, and the number of packets of a datagram."""
    way = route(spec.address, spec.source)
    header_bytes = HEADERS_BYTES[spec.ipver] - 8
    mtu = min(filter(None, (way.path_mtu, way.mtu, 65535 + header_bytes * (spec.ipver == 6))))
    whole = spec.payload_bytes + 8 <= mtu - header_bytes
    room = (mtu - header_bytes - 8 * (spec.ipver == 6)) // 8 * 8  # fragments are in units of 8 bytes
    return {
        "send_buffer": _send_room(sock, spec),
        "device": way.device,
        "qdisc": disciplines([way.device])[way.device] if way.device else "",
        "mtu_bytes": mtu,
        "datagram_packets": 1 if whole else -(-(spec.payload_bytes + 8) // room),
    }


@contextlib.contextmanager
def explained(spec: FlowSpec, port: int) -> Iterator[None]:
    """Turn errors of the kernel into LabError with a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            raise LabError(
                f"nobody receives datagrams at {spec.address} port {port} any more: the far end of this run has died, "
                "or a firewall rejects them"
            ) from error
        if error.errno == errno.EMSGSIZE:
            raise LabError(
                f"the kernel refuses datagrams of {spec.payload_bytes} bytes to {spec.address}; take smaller "
                "ones, or raise the MTU of the path"
            ) from error
        why = error.strerror or error
        raise LabError(
            f"no datagrams can be sent from {spec.source or 'here'} to {spec.address} port {port}: {why}"
        ) from error


def _socket(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def _send_room(sock: socket.socket, spec: FlowSpec) -> dict[str, int]:
    """Return the send buffer: of a flood the host's default, which keeps it from overflowing the host's own queue."""
    if spec.factors["rate"] != "flood":
        return _room(sock, socket.SO_SNDBUF, _SEND_BYTES)
    return {"asked_bytes": 0, "effective_bytes": sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)}


def _room(sock: socket.socket, option: int, wanted_bytes: int) -> dict[str, int]:
    return {"asked_bytes": wanted_bytes, "effective_bytes": set_buffer_size(sock, option, wanted_bytes)}
