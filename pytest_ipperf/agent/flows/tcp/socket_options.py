"""Options of the TCP sockets of a flow (congestion control and buffers), and the values in force."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.sockets.buffers import set_buffer_size
from pytest_ipperf.agent.sockets.ports import listed
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.units import bytes_text

AUTO, _USUAL = "auto", "cubic"
_NAME_BYTES = 16  # TCP_CA_NAME_MAX
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
_LIMITS = {socket.SO_SNDBUF: "net.core.wmem_max", socket.SO_RCVBUF: "net.core.rmem_max"}


def configure(sock: socket.socket, factors: Mapping[str, Any]) -> None:
    """Set the congestion control and, unless the window is `auto`, both buffers, before it connects or listens.

    With congestion control `auto` a run uses that of RFC 9438 (CUBIC), as the defaults of hosts differ, or the host's
    default if this user may not set it. Accepted connections inherit both from the listening socket. Raise LabError if
    the kernel refuses.
    """
    name = str(factors["congestion"])
    with contextlib.suppress(LabError) if name == AUTO else contextlib.nullcontext():  # reported by `notes`
        _set_congestion(sock, _USUAL if name == AUTO else name)
    if (window := factors["window"]) != AUTO:
        for option in _LIMITS:
            _set_buffer(sock, option, int(window))


def congestion(sock: socket.socket) -> str:
    """Return the name of the connection's congestion control."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES).partition(b"\0")[0].decode()


def check_congestion(socks: Sequence[socket.socket], factors: Mapping[str, Any]) -> None:
    """Raise LabError if a connection has another congestion control than requested."""
    for sock in socks:
        if factors["congestion"] not in (AUTO, found := congestion(sock)):
            raise LabError(f"a stream has congestion control {found} instead of {factors['congestion']}")


def effective_bytes(socks: Sequence[socket.socket], option: int) -> int:
    """Return the size of a socket buffer as getsockopt reports it, twice the requested one; the largest of several."""
    return max(sock.getsockopt(socket.SOL_SOCKET, option) for sock in socks)


def notes(sock: socket.socket, factors: Mapping[str, Any], whose: str) -> Iterator[str]:
    """Yield sentences where the kernel's congestion control is not CUBIC, or its window not the requested one."""
    if factors["congestion"] == AUTO and (found := congestion(sock)) != _USUAL:
        yield f"the {whose}'s congestion control is {found}, its host's default, as this user cannot set {_USUAL}"
    if (window := factors["window"]) == AUTO:
        return
    for option, limit in _LIMITS.items():
        # The kernel doubles the requested size, as its own records of packets count too (socket(7)).
        given = sock.getsockopt(socket.SOL_SOCKET, option) // 2
        kind = "send" if option == socket.SO_SNDBUF else "receive"
        if given < int(window) - 1:
            yield (
                f"asked for a window of {bytes_text(int(window))}, the {whose}'s kernel gave a {kind} buffer of "
                f"{bytes_text(given)} ({limit} there; root may have more)"
            )
        elif given > int(window):
            yield (
                f"asked for a window of {bytes_text(int(window))}, the {whose}'s kernel gave a {kind} buffer of "
                f"{bytes_text(given)}, its smallest"
            )


def _set_congestion(sock: socket.socket, name: str) -> None:
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except OSError as error:
        if error.errno == errno.EPERM:
            raise LabError(
                f"congestion control {name} is not permitted to this user; {_words(_ALLOWED)} are "
                "(net.ipv4.tcp_allowed_congestion_control)"
            ) from None
        raise LabError(
            f"congestion control {name} is not available in this host's kernel; {_words(_AVAILABLE)} are "
            "(net.ipv4.tcp_available_congestion_control)"
        ) from None


def _set_buffer(sock: socket.socket, option: int, size_bytes: int) -> None:
    try:
        set_buffer_size(sock, option, size_bytes)
    except OSError as error:
        raise LabError(
            f"a window of {bytes_text(size_bytes)} is refused by this host's kernel: {error.strerror}"
        ) from error


def _words(path: Path) -> str:
    try:
        return listed(path.read_text(encoding="ascii").split())
    except OSError:  # a kernel that does not list them
        return "others"
