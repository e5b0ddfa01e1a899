"""Send numbered datagrams evenly: each at its own instant of a schedule that nothing moves.

The sender sleeps until shortly before an instant and then polls the clock. One that has been kept from
it for a few milliseconds sends what is due at once, for the rate is what was asked for; its own stamps tell how even
that was. What is overdue by more is never sent: a burst would be another load than the one asked for.
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
"""So long before an instant the sender wakes, on a machine that is not late by more than that."""
_LATE_NS = 5_000_000
"""A datagram that is late by more than that, and by more than half a gap, is left out."""
_SLICE_S = 0.2
_KEEP_ALIVE_NS = 200_000_000
_HEAD = struct.Struct("=QQ")
_NO_ROOM = (errno.EAGAIN, errno.ENOBUFS)


@dataclass
class PacedResult:
    """When each datagram was sent, in ns, and how many of them the host had no room for.

    Those were lost before they went. `missed` were never tried, as their instants had passed long before.
    """

    stamps_ns: array[int] = field(default_factory=lambda: array("q"))
    refused: int = 0
    missed: int = 0

    def errors_s(self, gap_s: float) -> tuple[float, float]:
        """By how much gaps differ from that one: the median, and what 99 of 100 are below; 0 where there is none."""
        stamps, gap_ns = self.stamps_ns, gap_s * 1e9
        errors = sorted(abs(after - before - gap_ns) for before, after in pairwise(stamps))
        if not errors:
            return 0.0, 0.0
        return errors[len(errors) // 2] / 1e9, errors[len(errors) * 99 // 100] / 1e9


class PacedSender:
    """Sends datagrams of `size` bytes by a connected socket that does not wait, one each `gap_s`."""

    def __init__(self, sock: socket.socket, size: int, gap_s: float, alive: Callable[[], None]) -> None:
        self._sock, self._alive = sock, alive
        self._datagram = bytearray(max(size, HEAD_BYTES))
        self._gap_ns = gap_s * 1e9

    def send_burst(self, word: int, count: int) -> None:
        """Send so many, as fast as they go; `word` begins the first one's head, and the others' follow it."""
        for number in range(word, word + count):
            _HEAD.pack_into(self._datagram, 0, number, time.monotonic_ns())
            try:
                self._sock.send(self._datagram)
            except OSError as error:
                self._resend(error)

    def send(self, word: int, count: int, begin_ns: float) -> PacedResult:
        """So many, the first one at that instant, without those that are missed. OSError as the kernel says it.

        Where the sender was put off before the first one, all of them are later. The number of a datagram is its place
        in the schedule, so that those of missed ones are not used. One that the host has no room for keeps its number,
        and so is lost at the other end.
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
        """Send keep-alives meanwhile, where it lasts."""
        while (rest_s := (wake_ns - time.monotonic_ns()) * 1e-9) > 0:
            time.sleep(min(rest_s, _SLICE_S))
            if rest_s > _SLICE_S:
                self._alive()

    def _resend(self, error: OSError) -> bool:
        """Send once more what the kernel refused; whether it went.

        There is one where the kernel has learned from a router that packets are too large: it tells that once, and then
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
