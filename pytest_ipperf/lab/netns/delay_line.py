"""Delay every frame between two nodes of a lab, in order and in both directions; a separate program.

Run as `unshare --net python delay_line.py SECONDS PID DEVICE PID DEVICE`. In its own network namespace it makes a veth
pair to each of two nodes, given by a process in the node and the device's name there. It returns when the link is up
and leaves a process behind, which ends with the lab's pid namespace.

If the kernel has `netem`, that delays the frames, and the process only keeps the namespace. Otherwise the process
delays them. Pending offloads of a frame (checksum, segmentation) are kept, except segmentation inside a tunnel.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

_DEVICES = ("wire0", "wire1")
_ALL = 0x0003
_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33
_PR_SET_TIMERSLACK = 29
_LONGEST_BYTES = 1 << 17
_BUFFER_BYTES = 32 << 20
_AT_ONCE = 64
# More frames than a gigabit link sends in 100 ms.
_LIMIT_FRAMES = 100_000


def main() -> None:
    """Make the link and leave behind the process that keeps it."""
    delay_s, *ends = sys.argv[1:]
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1", "ascii")  # no packets of its own
    for device, pid, peer in zip(_DEVICES, ends[::2], ends[1::2], strict=True):
        _run("ip", "link", "add", device, "type", "veth", "peer", "name", peer, "netns", pid)
        _run("ip", "link", "set", device, "arp", "off", "up")
    relay = None if _by_kernel(float(delay_s)) else DelayLine(float(delay_s))
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)
    if relay is None:
        os.execvp("sleep", ["sleep", "infinity"])  # noqa: S606 - it is a program, and no shell is wanted
    relay.run()


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {done.stderr.strip()}")


def _by_kernel(delay_s: float) -> bool:
    """Make the kernel delay the frames; return whether it can."""
    lines = []
    for one, other in (_DEVICES, _DEVICES[::-1]):
        lines += [
            f"qdisc add dev {other} root netem delay {delay_s * 1e6:.0f}us limit {_LIMIT_FRAMES}",
            f"qdisc add dev {one} clsact",
            f"filter add dev {one} ingress matchall action mirred egress redirect dev {other}",
        ]
    tried = subprocess.run(["tc", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False)
    if tried.returncode:
        for device in _DEVICES:
            for qdisc in ("root", "clsact"):
                subprocess.run(["tc", "qdisc", "del", "dev", device, qdisc], capture_output=True, check=False)
    return not tried.returncode


class DelayLine:
    """Delay of frames in user space, from the kernel's receive timestamp on."""

    def __init__(self, delay_s: float) -> None:
        self._delay_ns = round(delay_s * 1e9)
        one, other = (_socket(device) for device in _DEVICES)
        self._ways = {one: (other, deque[tuple[int, bytes]]()), other: (one, deque[tuple[int, bytes]]())}

    def run(self) -> None:
        """Forward frames for ever."""
        ctypes.CDLL(None).prctl(
            _PR_SET_TIMERSLACK, 1, 0, 0, 0
        )  # the default slack delays each wake-up by 50 microseconds
        gc.disable()
        while True:
            dues = [held[0][0] for _, held in self._ways.values() if held]
            left_s = max(0, min(dues) - time.monotonic_ns()) / 1e9 if dues else None
            for sock in select.select(list(self._ways), [], [], left_s)[0]:
                self._take(sock)
            for out, held in self._ways.values():
                while held and held[0][0] <= time.monotonic_ns():
                    with contextlib.suppress(OSError):  # a link drops frames that do not fit
                        out.send(held.popleft()[1])

    def _take(self, sock: socket.socket) -> None:
        held = self._ways[sock][1]
        for _ in range(_AT_ONCE):
            try:
                frame, control, _, _ = sock.recvmsg(_LONGEST_BYTES, 64)
            except BlockingIOError:
                return
            seconds, nanoseconds = struct.unpack("qq", control[0][2])
            # Timestamps are of the real-time clock, which may be set at any time.
            age_ns = time.time_ns() - (seconds * 10**9 + nanoseconds)
            held.append((time.monotonic_ns() + self._delay_ns - min(max(age_ns, 0), self._delay_ns), frame))


def _socket(device: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setblocking(False)  # noqa: FBT003 - the method takes no keyword
    sock.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
        with contextlib.suppress(PermissionError):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
            break
    sock.bind((device, _ALL))
    return sock


if __name__ == "__main__":
    main()
