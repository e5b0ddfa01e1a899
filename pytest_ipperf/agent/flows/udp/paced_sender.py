"""Paced sender of numbered datagrams, each at its own instant of a fixed schedule.

The sender sleeps until shortly before an instant and then polls the clock. After a delay of a few milliseconds it sends
all that is due at once, to keep the requested rate; its own timestamps show how even the gaps were. Datagrams overdue
by more are never sent: a burst would be another load than the requested one.
"""

from __future__ import annotations

import errno
import math
import socket
import struct
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from pytest_ipperf.agent.sockets.batch_io import HEAD_BYTES

_WAKE_EARLY_NS = 60_000
"""Time before an instant at which the sender wakes, in ns; machines wake up late by no more than that."""
_LATE_NS = 5_000_000
"""Delay above which a datagram is left out, if it is also above half a gap."""
_SLICE_S = 0.2
_KEEP_ALIVE_NS = 200_000_000
_HEAD = struct.Struct("=QQ")
_NO_ROOM = (errno.EAGAIN, errno.ENOBUFS)


@dataclass
class PacedResult:
    """Timestamps of the datagrams sent, in ns, and the number of those that the host had no room for.

    The `refused` ones were lost before they left. `missed` ones were never tried, as their instants had long passed.
    """

    stamps_ns: array[int] = field(default_factory=lambda: array("q"))
    refused: int = 0
    missed: int = 0

    def errors_s(self, gap_s: float) -> tuple[float, float]:
        """Return the median and the 99th percentile of the gaps' deviations from this one, in s; 0 without gaps."""
        stamps, gap_ns = self.stamps_ns, gap_s * 1e9
        errors = sorted(abs(after - before - gap_ns) for before, after in pairwise(stamps))
        if not errors:
            return 0.0, 0.0
        return errors[len(errors) // 2] / 1e9, errors[len(errors) * 99 // 100] / 1e9


class PacedSender:
    """Sender of datagrams of `size` bytes, one each `gap_s`, by a connected non-blocking socket."""

    def __init__(self, sock: socket.socket, size: int, gap_s: float, alive: Callable[[], None]) -> None:
        self._sock, self._alive = sock, alive
        self._datagram = bytearray(max(size, HEAD_BYTES))
        self._gap_ns = gap_s * 1e9

    def send_burst(self, word: int, count: int) -> None:
        """Send `count` datagrams as fast as possible, with headers that begin with `word` and the words after it."""
        for number in range(word, word + count):
            _HEAD.pack_into(self._datagram, 0, number, time.monotonic_ns())
            try:
                self._sock.send(self._datagram)
            except OSError as error:
                self._resend(error)

    def send(self, word: int, count: int, begin_ns: float) -> PacedResult:
        """Send `count` datagrams, the first at `begin_ns`, without the missed ones; raise the kernel's OSError.

        If the sender is late for the first one, the schedule moves. The number of a datagram is its place in the
        schedule, so the numbers of missed ones are not used. A datagram that the host has no room for keeps its number,
        and so counts as lost at the other end.
        """
        result = PacedResult()
        now, send, pack = time.monotonic_ns, self._sock.send, _HEAD.pack_into
        datagram, gap_ns, note = self._datagram, self._gap_ns, result.stamps_ns.append
        late_ns = max(_LATE_NS, gap_ns / 2)
        number, keep_alive_ns = 0, begin_ns
        while number < count:
            due_ns = begin_ns + number * gap_ns
            at_ns = now()
            if at_ns > keep_alive_ns:
                self._alive()
                at_ns = now()
                keep_alive_ns = at_ns + _KEEP_ALIVE_NS
            if due_ns - at_ns > _WAKE_EARLY_NS:
                self._sleep_until(due_ns - _WAKE_EARLY_NS)
                at_ns = now()
            while at_ns < due_ns:
                at_ns = now()
            if at_ns - due_ns > late_ns and not number:
                begin_ns = at_ns
            elif at_ns - due_ns > late_ns:
                after = min(count, max(number + 1, math.ceil((at_ns - late_ns - begin_ns) / gap_ns)))
                result.missed += after - number
                number = after
                if number == count or begin_ns + number * gap_ns > at_ns:
                    continue
            pack(datagram, 0, word + number, at_ns)
            try:
                send(datagram)
            except OSError as error:
                result.refused += not self._resend(error)
            note(at_ns)
            number += 1
        return result

    def _sleep_until(self, wake_ns: float) -> None:
        """Sleep, sending keep-alives during a long sleep."""
        while (rest_s := (wake_ns - time.monotonic_ns()) * 1e-9) > 0:
            time.sleep(min(rest_s, _SLICE_S))
            if rest_s > _SLICE_S:
                self._alive()

    def _resend(self, error: OSError) -> bool:
        """Send a refused datagram once more; return whether it went.

        The kernel refuses one when it learns from a router that packets are too large: it reports that once, and then
        sends fragments (ip(7), IP_MTU_DISCOVER).
        """
        if error.errno in _NO_ROOM:
            return False
        if error.errno != errno.EMSGSIZE:
            raise error
        try:
            self._sock.send(self._datagram)
        except OSError as again:
            if again.errno not in _NO_ROOM:
                raise
            return False
        return True
