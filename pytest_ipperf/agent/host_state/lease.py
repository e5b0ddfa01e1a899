"""Lease on a host: two jobs never measure on one host at once.

It is an abstract Unix socket: its name belongs to the host's network namespace, all users share it, it dies with its
holder however that ends, and the kernel itself names the holder. No file can be left behind. The start and the purpose
of the lease are in the names of further such sockets, which the kernel lists to everyone: so they are known even if the
holder has been stopped.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import re
import socket
import struct
import time
from pathlib import Path

from pytest_ipperf.agent.kernel.processes import process_of

_NAME = "\0pytest-ipperf.lease"
_PATIENCE_S = 0.1
# The holder accepts no connection of those who ask for it, so each stays in the queue as long as the lease is held.
_MOST_QUESTIONS = 4096
_TEXT_BYTES = 240
_PIECE = 48  # characters: the kernel has room for a name of 107 bytes
_SHOWN = 120
_LISTENS = "00010000"  # the kernel's __SO_ACCEPTCON
_LONG_AGO_S = 12 * 3600
_ASKING_S = 2.0
_ROUNDED_S = 1.0


class Lease:
    """Lease on this host, held from a successful `acquire` until `release`.

    `owner` names the job: where two hosts of its testbed are one machine, the second acquire succeeds too. Further
    lines of `owner` are shown to those who ask for the holder: where the job was started, and by which command.
    """

    def __init__(self, owner: str, name: str = _NAME) -> None:
        self._name = name
        ident, _, self._purpose = owner.partition("\n")
        self._mark = f"{name}.{ident}"
        self._socks: list[socket.socket] = []

    def acquire(self, wait_s: float) -> str:
        """Wait up to `wait_s` seconds for the lease; return the empty string when acquired, else its holder."""
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
        with contextlib.suppress(OSError):  # missing information is no reason not to measure
            for piece in _pieces(self._name, f"{_awake_s():.0f}\n{self._purpose}"):
                self._bind(piece)
        return True

    def _bind(self, name: str) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(name)
        except OSError:
            sock.close()
            raise
        sock.listen(_MOST_QUESTIONS)  # from now on the kernel names this process to anyone who connects
        self._socks.append(sock)

    def holder(self) -> str:
        """Describe the holder, `process 4711 of user 0 since 12:01:33 (me@desk: pytest -m smtp)`; empty if none."""
        peer = _peer(self._name)
        return _described(peer, *_advertised(self._name, peer)) if peer else ""

    def release(self) -> None:
        """Release the lease; releasing twice is no error, as every way out of a measurement does it."""
        while self._socks:
            self._socks.pop().close()


def _peer(name: str) -> tuple[int, int] | None:
    """Return process and user that listen under an abstract name, from the kernel; None if nobody does.

    None also if the queue of those who ask is full, which shows at once.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1)
        if asking.connect_ex(name):
            return None
        pid, uid, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def _pieces(name: str, text: str) -> list[str]:
    """Return the socket names that encode a text; the token keeps those of two holders apart."""
    encoded = base64.urlsafe_b64encode(text.encode()[:_TEXT_BYTES]).decode()
    parts = [encoded[at : at + _PIECE] for at in range(0, len(encoded), _PIECE)]
    token = os.urandom(4).hex()
    return [f"{name}.{token}.{number}.{len(parts)}.{part}" for number, part in enumerate(parts)]


def _advertised(name: str, holder: tuple[int, int]) -> tuple[float | None, str]:
    """Return since when the lease is held, on the clock of `_awake_s` (None: unknown), and the holder's purpose.

    Anybody can take a name, so only those of the holder's own process count; as somebody may take very many, the search
    is limited in time. The holder may lie too: the instant has to lie between the machine's start and now.
    """
    try:
        listed = Path("/proc/net/unix").read_text(errors="replace")
    except OSError:
        return None, ""
    # Earlier inquirers' connections are listed under the same names, without the flag of a listener.
    form = re.compile(
        rf"^\w+: \w+ \w+ {_LISTENS} .* @({re.escape(name[1:])}\.([0-9a-f]{{8}})\.(\d+)\.(\d+)\.([\w=-]+))$",
        re.ASCII | re.MULTILINE,
    )
    found: dict[tuple[str, int], dict[int, str]] = {}
    end = time.monotonic() + _ASKING_S
    for match in form.finditer(listed):
        if time.monotonic() >= end:
            break
        if _peer(f"\0{match[1]}") == holder:
            found.setdefault((match[2], int(match[4])), {})[int(match[3])] = match[5]
    for (_, count), parts in found.items():
        with contextlib.suppress(ValueError):
            text = base64.urlsafe_b64decode("".join(parts[number] for number in sorted(parts)))
            since, _, purpose = text.decode(errors="ignore").partition("\n")
            if len(parts) == count and 0 <= float(since) <= _awake_s() + _ROUNDED_S:
                return float(since), purpose
    return None, ""


def _described(peer: tuple[int, int], since_s: float | None, purpose: str) -> str:
    pid, uid = peer
    text = f"process {pid} of user {uid}" if pid > 0 else "a process that cannot be seen from here"
    if since_s is not None:
        text += f" since {_clock(since_s)}"
    with contextlib.suppress(OSError, ValueError):
        purpose = purpose or Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        if since_s is None and (found := process_of(pid)):  # a holder of another version
            text += f", running since {_clock(found.started_ticks / os.sysconf('SC_CLK_TCK'))}"
    shown = "".join(each if each.isprintable() else " " for each in purpose.strip())
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    return f"{text} ({shown})" if shown else text


def _awake_s() -> float:
    """Return seconds since the machine's start, which setting its clock does not change."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _clock(since_s: float) -> str:
    ago_s = _awake_s() - since_s
    form = "%H:%M:%S" if ago_s < _LONG_AGO_S else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, time.localtime(time.time() - ago_s))
