"""Comparison of another host's clock with this one, by exchanges of four timestamps as in NTP (RFC 5905, section 8).

Both clocks are CLOCK_MONOTONIC, which nobody sets. Each end polls without sleeping while exchanges are under way, so
that no wake-up delays one direction only; an idle server sleeps.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import statistics
import struct
import time
from collections.abc import Sequence
from threading import Thread

from pytest_ipperf.agent.host_state.state_dir import boot_id
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import LabError

Exchange = tuple[int, int, int, int]
"""Times in ns at which a request was sent (local clock), arrived, was answered (far clock), and the reply arrived."""

_FORM = struct.Struct("!QqqQ")  # number, arrival, reply, unused; both times are 0 in a request
_LATEST_NS = 1_000_000_000
_MOST_NS = 3_000_000_000
_AWAKE_NS = 1_000_000
_NAP = struct.pack("ll", 0, 50_000)
_TRIES = 2


class OffsetServer:
    """Server that replies with its timestamps, on a free port of `ports`, in a thread of its own until closed."""

    def __init__(self, address: str, ports: tuple[int, int]) -> None:
        self.port = free_port([address], *ports, random.Random())  # noqa: S311 - not a secret
        self._sock = _bound(address, self.port)
        self._open = True
        self._thread = Thread(target=self._answer, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server; may be called twice."""
        self._open = False
        with contextlib.suppress(OSError):  # an unconnected socket raises, but wakes the waiting thread all the same
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()

    def _answer(self) -> None:
        awake_ns = 0
        while self._open:
            try:
                question, client = self._sock.recvfrom(_FORM.size + 1, _flags(awake_ns))
                came_ns = time.monotonic_ns()
                # Replies are ignored, or two such servers could be made to answer each other for ever.
                if len(question) == _FORM.size and not any(question[8:]):
                    number = int.from_bytes(question[:8], "big")
                    self._sock.sendto(_FORM.pack(number, came_ns, time.monotonic_ns(), 0), client)
                    awake_ns = came_ns + _AWAKE_NS
            except OSError:  # nothing received, or the client is gone
                continue


def exchange(source: str, address: str, port: int, count: int) -> list[Exchange]:
    """Make up to `count` exchanges with a server, one after another; lost ones are left out.

    This takes a few seconds at most, and less if nobody answers. Raise LabError if `source` is no address of this host.
    """
    found: list[Exchange] = []
    with _bound(source, 0, six=":" in address) as sock, contextlib.suppress(OSError):  # without a route there are none
        sock.connect((address, port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _NAP)
        end_ns = time.monotonic_ns() + _MOST_NS
        patience_ns, longest_ns = _LATEST_NS, 0
        for number in range(count):
            one = _exchanged(sock, number, min(end_ns, time.monotonic_ns() + patience_ns))
            if one:
                found.append(one)
                longest_ns = max(longest_ns, one[3] - one[0])
                patience_ns = min(_LATEST_NS, 4 * longest_ns + _LATEST_NS // 20)
            if time.monotonic_ns() > end_ns or (not found and number + 1 == _TRIES):
                break
    return found


def _exchanged(sock: socket.socket, number: int, due_ns: int) -> Exchange | None:
    sent_ns = time.monotonic_ns()
    sock.send(_FORM.pack(number, 0, 0, 0))
    while True:
        try:
            answer = sock.recv(_FORM.size + 1, _flags(due_ns))
            came_ns = time.monotonic_ns()
            if len(answer) == _FORM.size and int.from_bytes(answer[:8], "big") == number:
                _, there_ns, answered_ns, _ = _FORM.unpack(answer)
                return sent_ns, there_ns, answered_ns, came_ns
        except BlockingIOError:
            if time.monotonic_ns() > due_ns:
                return None


def estimate(exchanges: Sequence[Exchange]) -> tuple[float, float]:
    """Estimate in seconds by how much the far clock is ahead of the near one, and the largest error of that.

    The offset is the median of the tenth of the exchanges with the smallest delay, as delays are seldom equal in both
    directions. A delay in one direction only shifts an offset by half of it, so the fastest exchange bounds the error.
    Without any exchange the offset is 0 and the error infinite.
    """
    if not exchanges:
        return 0.0, float("inf")
    judged = sorted((t4 - t1 - (t3 - t2), (t2 - t1) + (t3 - t4)) for t1, t2, t3, t4 in exchanges)
    (delay_ns, fastest), *_ = judged
    twice = statistics.median(each for _, each in judged[: max(1, len(judged) // 10)])
    return twice * 0.5e-9, (max(0, delay_ns) + abs(twice - fastest)) * 0.5e-9


def clock_of_host() -> dict[str, str]:
    """Return the identity of this CLOCK_MONOTONIC: two hosts with the same one share the clock."""
    space = ""
    with contextlib.suppress(OSError):  # a kernel without such namespaces
        space = os.readlink("/proc/self/ns/time")  # noqa: PTH115 - the name is the answer, and no path
    return {"boot": boot_id(), "time": space}


def _flags(awake_ns: int) -> int:
    """Return flags to poll, or to sleep until data arrives; a single processor is left to the other process."""
    return socket.MSG_DONTWAIT if time.monotonic_ns() < awake_ns and (os.cpu_count() or 1) > 1 else 0


def _bound(address: str, port: int, *, six: bool = False) -> socket.socket:
    family = socket.AF_INET6 if six or ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if address:
            sock.bind((address, port))
    except OSError as error:
        sock.close()
        raise LabError(f"no clocks can be compared on {address}: {error.strerror}") from error
    return sock
