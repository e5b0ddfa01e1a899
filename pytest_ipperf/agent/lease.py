"""A lease on a host: two jobs never measure on one host at once.

It is an abstract Unix socket: its name belongs to the host's network namespace, it is shared by all users, it dies
with its holder however that ends, and the kernel itself tells who holds it. No file can be left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from pathlib import Path

_NAME = "\0pytest-ipperf.lease"
_PATIENCE_S = 0.1
# Nobody takes the connections of those who ask who holds it, so each stays in the queue as long as the lease is held.
_MOST_QUESTIONS = 4096


class Lease:
    """Held from a successful `acquire` until `release`.

    `owner` names the job: where two hosts of its testbed are one machine, the second finds the lease in its own hands.
    """

    def __init__(self, owner: str, name: str = _NAME) -> None:
        self._name = name
        self._mark = f"{name}.{owner}"
        self._socks: list[socket.socket] = []

    def acquire(self, wait_s: float) -> str:
        """Waits up to `wait_s` seconds; empty when held, else who holds it."""
        end = time.monotonic() + wait_s
        while not self._try():
            if time.monotonic() >= end:
                return self.holder() or "a job that has just ended"
            time.sleep(_PATIENCE_S)
        return ""

    def _try(self) -> bool:
        try:
            self._bind(self._name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return bool(_peer(self._mark))
        self._bind(self._mark)
        return True

    def _bind(self, name: str) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(name)
        except OSError:
            sock.close()
            raise
        sock.listen(_MOST_QUESTIONS)  # from now on the kernel names this process to whoever asks
        self._socks.append(sock)

    def holder(self) -> str:
        """Who holds it, in words: `process 4711 (pytest -m smtp) of user 0 since 12:01:33`; empty when nobody does."""
        peer = _peer(self._name)
        return _described(*peer) if peer else ""

    def release(self) -> None:
        """Gives it back; releasing twice is no error, as every way out of a measurement does it."""
        while self._socks:
            self._socks.pop().close()


def _peer(name: str) -> tuple[int, int] | None:
    """Process and user that listen under an abstract name, as the kernel tells it; None when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1)
        if asking.connect_ex(name):
            return None
        pid, uid, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def _described(pid: int, uid: int) -> str:
    if pid <= 0:
        return "a process that cannot be seen from here"
    text = f"process {pid} of user {uid}"
    with contextlib.suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        since = time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
        text += f", running since {time.strftime('%H:%M:%S', time.localtime(since))} ({words[:80]})"
    return text
