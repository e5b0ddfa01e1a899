"""Sender of modelled traffic: each packet at its own instant of a schedule.

Shortly before an instant the sender polls the clock; for a schedule so dense that it would poll for more than a tenth
of the time, it sleeps until the instant and then sends all that is due. Packets that are overdue by more than 100 ms,
longer than a busy host pauses a process, are never sent: a burst of them would be another load than the model's.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pytest_ipperf.core.portable.traffic.schedule import Packet

_WAKE_EARLY_NS = 60_000
_MOST_POLLING = 10
"""The time spent polling is at most this part of all."""
_LATE_NS = 100_000_000
_SLICE_S = 0.1

Send = Callable[[Packet, bool, int], bool]
"""Function that sends a packet, of the run or of the warm-up, at an instant in ns; False if the host had no room."""


@dataclass(slots=True)
class SentPackets:
    """Packets of the run: those sent, with those that the host had no room for (`refused`), and the `missed` ones.

    `late_ns` is by how much each was sent after its instant.
    """

    sent: int = 0
    sent_bytes: int = 0
    refused: int = 0
    missed: int = 0
    missed_bytes: int = 0
    late_ns: array[int] = field(default_factory=lambda: array("q"))
    cpu_s: float = 0.0

    def lateness_s(self) -> tuple[float, float]:
        """Return the median and the 99th percentile of the lateness in s; 0 without packets."""
        late = sorted(self.late_ns)
        return (late[len(late) // 2] / 1e9, late[len(late) * 99 // 100] / 1e9) if late else (0.0, 0.0)


def send_schedule(
    packets: Iterable[Packet], send: Send, *, begin_ns: int, warmup_s: float, idle: Callable[[], None]
) -> SentPackets:
    """Send all packets at their instants after `begin_ns`; those due in the warm-up do not count.

    `idle` is called before each sleep, and every tenth of a second of it.
    """
    result, now = SentPackets(), time.monotonic_ns
    note, polled_ns, cpu_s = result.late_ns.append, 0, time.thread_time()
    for packet in packets:
        due_ns, counts = begin_ns + int(packet.due_s * 1e9), packet.due_s >= warmup_s
        at_ns = now()
        polls = polled_ns * _MOST_POLLING <= at_ns - begin_ns
        wake_ns = due_ns - _WAKE_EARLY_NS if polls else due_ns
        while at_ns < wake_ns:
            idle()
            time.sleep(min(_SLICE_S, (wake_ns - at_ns) * 1e-9))
            at_ns = now()
        if at_ns < due_ns:
            awake_ns = at_ns
            while at_ns < due_ns:
                at_ns = now()
            polled_ns += at_ns - awake_ns
        if at_ns - due_ns > _LATE_NS:
            result.missed += counts
            result.missed_bytes += packet.size_bytes * counts
            continue
        accepted = send(packet, counts, at_ns)
        if counts:
            result.sent += 1
            result.sent_bytes += packet.size_bytes
            result.refused += not accepted
            note(at_ns - due_ns)
    result.cpu_s = time.thread_time() - cpu_s
    return result
