"""Probes by UDP or ICMP datagrams, timed by this process's clock or by the kernels' timestamps."""

from __future__ import annotations

import contextlib
import socket
import time

from pytest_ipperf.agent.flows.rtt.frame import Frame
from pytest_ipperf.agent.flows.rtt.probe import LOST, Probe, set_waiting
from pytest_ipperf.agent.sockets.timestamping import CONTROL_BYTES, TxTimestamps, rx_timestamp_ns

_BUFFER_BYTES = 1 << 20
_HEADERS_BYTES = 128
_STAMP_NS = 5_000_000
_ONCE_MORE, _ONCE_MORE_NS = 3, 1_000_000_000


class DatagramProbe(Probe):
    """Probe on a connected socket."""

    def __init__(self, sock: socket.socket, frame: Frame, *, busy_polls: bool) -> None:
        super().__init__(busy_polls=busy_polls)
        self.kind = frame.name
        self._sock, self._frame = sock, frame
        self._buffer = bytearray(len(frame.message) + _HEADERS_BYTES)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        set_waiting(sock, busy_polls=busy_polls)
        self.note_socket(sock)

    def round_trip_ns(self, number: int, due_ns: int) -> int:
        """Measure from before the probe is sent until its reply has been read."""
        frame, buffer, clock = self._frame, self._buffer, time.monotonic_ns
        send, take, message = self._sock.send, self._sock.recv_into, frame.message
        frame.set_number(number)
        began_ns = clock()
        send(message)
        while True:
            try:
                take(buffer)
            except BlockingIOError:
                if clock() > due_ns:
                    return LOST
                continue
            ended_ns = clock()
            if ended_ns > due_ns:
                return LOST
            if frame.is_reply(buffer, number):
                return ended_ns - began_ns

    def pause(self, due_ns: int) -> None:
        """Poll during the pause too, if the probe busy-polls."""
        if not self.busy_polls:
            super().pause(due_ns)
        clock, take, buffer = time.monotonic_ns, self._sock.recv_into, self._buffer
        while clock() < due_ns:
            try:
                take(buffer)
            except OSError:  # nothing there; a late reply is dropped, and an error comes again
                continue

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class TimestampedProbe(DatagramProbe):
    """Probe timed from the kernel's timestamp of the request to that of its reply, both at this end."""

    def __init__(self, sock: socket.socket, frame: Frame) -> None:
        super().__init__(sock, frame, busy_polls=False)
        self._tx_timestamps = TxTimestamps(sock)
        self._took: dict[int, int] = {}
        self._newest = 0

    def round_trip_ns(self, number: int, due_ns: int) -> int:
        """Measure by this process's clock too, whose time can only be longer."""
        frame, clock = self._frame, time.monotonic_ns
        frame.set_number(number)
        began_ns = clock()
        self._tx_timestamps.send(number, frame.message)
        self._newest = number
        while clock() <= due_ns:
            with contextlib.suppress(BlockingIOError):
                _, messages, _, _ = self._sock.recvmsg_into([self._buffer], CONTROL_BYTES)
                ended_ns = clock()
                if ended_ns <= due_ns and frame.is_reply(self._buffer, number):
                    self._note(number, rx_timestamp_ns(messages))
                    return ended_ns - began_ns
        return LOST

    def _note(self, number: int, came_ns: int) -> None:
        """Record when the reply came; the timestamp of the probe itself may be slightly late."""
        end_ns, in_time = time.monotonic_ns() + _STAMP_NS, True
        while came_ns and in_time:
            in_time = time.monotonic_ns() < end_ns  # a process that was held up looks once more
            for which, left_ns in self._tx_timestamps.read():
                if which == number:
                    self._took[number] = came_ns - left_ns
                    return

    def final_times_ns(self, asked: dict[int, int]) -> dict[int, int]:
        """Leave out probes without timestamps, or with impossible ones, as after setting the clock."""
        return {
            number: self._took[number]
            for number, most_ns in asked.items()
            if 0 <= self._took.get(number, LOST) <= most_ns
        }


class TwoStepProbe(TimestampedProbe):
    """Probe from kernel to kernel: the time between the far end's timestamps, in the next reply, is subtracted."""

    def __init__(self, sock: socket.socket, frame: Frame) -> None:
        super().__init__(sock, frame)
        self._there: dict[int, int] = {}

    def _note(self, number: int, came_ns: int) -> None:
        super()._note(number, came_ns)
        self._frame.request_stamps_of(number)
        of, there_ns, back_ns = self._frame.reply_stamps(self._buffer)
        if of and there_ns and back_ns:
            self._there[of] = back_ns - there_ns

    def final_times_ns(self, asked: dict[int, int]) -> dict[int, int]:
        """Request the timestamps of the last probe once more."""
        last = max(asked, default=0)
        for _ in range(_ONCE_MORE):
            if last and last not in self._there:
                self.round_trip_ns(self._newest + 1, time.monotonic_ns() + _ONCE_MORE_NS)
        return {
            number: self._took[number] - self._there[number]
            for number in super().final_times_ns(asked)
            if 0 <= self._there.get(number, LOST) <= self._took[number]
        }
