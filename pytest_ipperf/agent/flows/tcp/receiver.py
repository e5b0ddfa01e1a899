"""Receiver of the streams of a TCP run, whose clock and counts are the run's.

The clock begins with the first byte. Each thread reads into a buffer of its own, as a program does that uses its data.
With factor `receiving` at `discard` the kernel throws the data away instead (MSG_TRUNC, tcp(7)), which no application
can do: so the figure is that of sender, kernel and path.

With a window of a fixed size the sender soon waits for the receiver, and the receiver for the sender. An idle processor
takes 20 us and more to wake up, several times what 8 KiB take on a fast path, so a receiver that slept at once would
measure its processor. It tries a few more times first, some microseconds in all.
"""

from __future__ import annotations

import contextlib
import socket
from array import array
from collections.abc import Callable, Sequence

from pytest_ipperf.agent.flows.spec import IDLE_STREAMS, FlowReport, FlowSpec
from pytest_ipperf.agent.flows.tcp.socket_options import AUTO, effective_bytes
from pytest_ipperf.agent.flows.tcp.streams import DRAIN_S, OVER, Streams, readable
from pytest_ipperf.core.portable.errors import LabError

READ, DISCARD = "read", "discard"
_READ_BYTES = 2**20
_TRIES = 8
"""Reads without sleep before one that sleeps, with a window of a fixed size."""


class StreamReceiver(Streams):
    """Receiver that reads until the streams end, also data that comes after the run."""

    def __init__(self, socks: Sequence[socket.socket], peer: str, spec: FlowSpec) -> None:
        self._here = socks[0].getsockname()[0]
        super().__init__(socks, peer, f"nothing arrived at {self._here} from {peer}", spec.deadline_s)
        self._spec = spec

    def run(self, alive: Callable[[], None]) -> FlowReport:
        """Receive; return samples, `seconds`, `payload_bytes`, `receive_buffer_bytes` and `receiver_cpu_s`."""
        if not readable(self.socks, self._spec.deadline_s, alive):
            raise LabError(f"{self._silence} within {self._spec.deadline_s:g} s")
        points = [
            (at_s, counts)
            for at_s, counts, counted in self.watch(self._spec.warmup_s, self._spec.run_s, alive)
            if counted
        ]
        buffer_bytes = effective_bytes(self.socks, socket.SO_RCVBUF)
        self._end()
        report = self._report(points)
        report.facts["receive_buffer_bytes"] = float(buffer_bytes)
        return report

    def _move(self, sock: socket.socket, place: int) -> None:
        into, counts, receive = bytearray(_READ_BYTES), self.counts, sock.recv_into
        flags = socket.MSG_TRUNC if self._spec.factors.get("receiving", READ) == DISCARD else 0
        tries = 0 if self._spec.factors["window"] == AUTO else _TRIES
        while True:
            try:
                while size := _read_awake(sock, into, flags, tries) or receive(into, 0, flags):
                    counts[place] += size
            except BlockingIOError:  # nothing came before the time-out
                continue
            return

    def _end(self) -> None:
        self._stopping = True
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.send(OVER)
        self.join(2 * DRAIN_S)

    def _report(self, points: Sequence[tuple[float, Sequence[int]]]) -> FlowReport:
        (began_s, before), (ended_s, _) = points[0], points[-1]
        rows = array("d")
        for at_s, counts in points:
            for place, count in enumerate(counts):
                rows.extend((place, at_s - began_s, count - before[place]))
        moved = [count - first for first, count in zip(before, points[-1][1], strict=True)]
        if not sum(moved):
            raise LabError(f"{self._silence} in the {ended_s - began_s:.3g} s of the run")
        report = FlowReport(
            samples=rows.tobytes(),
            facts={"seconds": ended_s - began_s, "payload_bytes": float(sum(moved)), "receiver_cpu_s": self.cpu_s},
            detail={"receiver": {"received_bytes": self.counts.copy()}},
            notes=self.bounds("receiver"),
            cpu_s=self.cpu_s,
            wall_s=self.wall_s,
        )
        if idle := moved.count(0):
            report.facts[IDLE_STREAMS] = float(idle)
            report.notes.append(
                f"{idle} of {len(moved)} streams moved nothing in the run, so the others had the path to themselves"
            )
        return report


def _read_awake(sock: socket.socket, into: bytearray, flags: int, tries: int) -> int:
    """Return the bytes that one of several reads without sleep got; 0 if nothing came or the stream has ended."""
    for _ in range(tries):
        try:
            return sock.recv_into(into, 0, flags | socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
    return 0
