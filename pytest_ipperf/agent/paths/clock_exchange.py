"""Compare another host's clock with this one: exchanges of four timestamps, as NTP makes them (RFC 5905, section 8).

Both clocks are CLOCK_MONOTONIC, which nobody sets. Each end busy-polls while exchanges are under way, so that
neither's waking up is in one way and not in the other; a server that nobody asks sleeps.
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
"""When a question was sent (ours), came, was answered (theirs), and when the answer came (ours); in ns."""

_FORM = struct.Struct("!QqqQ")  # number, when it came, when it was answered, nothing; both 0 in a question
_LATEST_NS = 1_000_000_000
_MOST_NS = 3_000_000_000
_AWAKE_NS = 1_000_000
_NAP = struct.pack("ll", 0, 50_000)
_TRIES = 2


class OffsetServer:
    """Answers with its stamps, on a free port of `ports`, from a thread of its own until it is closed."""

    def __init__(self, address: str, ports: tuple[int, int]) -> None:
        self.port = free_port([address], *ports, random.Random())  # noqa: S311 - not a secret
        self._sock = _bound(address, self.port)
        self._open = True
        self._thread = Thread(target=self._answer, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the answering; may be called twice."""
        self._open = False
        with contextlib.suppress(OSError):  # that it is not connected; who waits there has been woken all the same
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()

    def _answer(self) -> None:
        awake_ns = 0
        while self._open:
            try:
                question, client = self._sock.recvfrom(_FORM.size + 1, _flags(awake_ns))
                came_ns = time.monotonic_ns()
                # An answer is none, or two such servers could be made to talk with each other for ever.
                if len(question) == _FORM.size and not any(question[8:]):
                    number = int.from_bytes(question[:8], "big")
                    self._sock.sendto(_FORM.pack(number, came_ns, time.monotonic_ns(), 0), client)
                    awake_ns = came_ns + _AWAKE_NS
            except OSError:  # nothing there, or nobody to be answered any more
                continue


def exchange(source: str, address: str, port: int, count: int) -> list[Exchange]:
    """So many of them with the server there, one after another; those that were lost are left out.

    Takes a few seconds at most, and is given up sooner where nobody answers. LabError where `source` is not ours.
    """
    found: list[Exchange] = []
    with _bound(source, 0, six=":" in address) as sock, contextlib.suppress(OSError):  # without a way there are none
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
    """By how much the far clock is ahead of the near one, and how far off that is at most, in seconds.

    The median of the tenth with the smallest delay: what was delayed was seldom so in both ways alike. A delay that was
    in one way alone shifts an offset by its half, so the fastest of all bounds the error. Of no exchange the offset is
    0, and infinitely unsure.
    """
    if not exchanges:
        return 0.0, float("inf")
    judged = sorted((t4 - t1 - (t3 - t2), (t2 - t1) + (t3 - t4)) for t1, t2, t3, t4 in exchanges)
    (delay_ns, fastest), *_ = judged
    twice = statistics.median(each for _, each in judged[: max(1, len(judged) // 10)])
    return twice * 0.5e-9, (max(0, delay_ns) + abs(twice - fastest)) * 0.5e-9


def clock_of_host() -> dict[str, str]:
    """Whose CLOCK_MONOTONIC this is: two hosts that tell the same share one, and have no offset."""
    space = ""
    with contextlib.suppress(OSError):  # a kernel without such namespaces
        space = os.readlink("/proc/self/ns/time")  # noqa: PTH115 - the name is the answer, and no path
    return {"boot": boot_id(), "time": space}


def _flags(awake_ns: int) -> int:
    """Flags to poll, or to sleep until there is something; where there is one processor only, the other needs it."""
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
