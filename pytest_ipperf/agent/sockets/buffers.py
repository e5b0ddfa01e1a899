"""Socket buffers, beyond the limits of this host (net.core.wmem_max, rmem_max) if this user may exceed them."""

from __future__ import annotations

import socket
import struct

_FORCED = {socket.SO_SNDBUF: 32, socket.SO_RCVBUF: 33}
"""SO_SNDBUFFORCE and SO_RCVBUFFORCE (socket(7))."""
_SO_MEMINFO, _DROPS = 55, 8


def set_buffer_size(sock: socket.socket, option: int, size_bytes: int) -> int:
    """Set a socket buffer to this size, or to as much of it as this user may have; OSError if the kernel refuses.

    Return the size as the kernel counts it: twice the requested one, as its own records of packets count too.
    """
    try:
        sock.setsockopt(socket.SOL_SOCKET, _FORCED[option], size_bytes)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)
    return sock.getsockopt(socket.SOL_SOCKET, option)


def dropped(sock: socket.socket) -> int:
    """Return how many datagrams the socket's buffer had no room for (linux/sock_diag.h: SK_MEMINFO_DROPS)."""
    meminfo = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 64)
    return int(struct.unpack_from("=I", meminfo, 4 * _DROPS)[0]) if len(meminfo) > 4 * _DROPS else 0
