"""Sender on the streams of a TCP run, as fast as they accept data, until the receiver ends the run."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable, Sequence

from pytest_ipperf.agent.flows.spec import FlowReport, FlowSpec
from pytest_ipperf.agent.flows.tcp.socket_options import effective_bytes
from pytest_ipperf.agent.flows.tcp.streams import DRAIN_S, OVER, Streams, limit_blocking, readable
from pytest_ipperf.agent.flows.tcp.writers import WRITE, Writers
from pytest_ipperf.agent.sockets.tcp_info import TcpInfoSampler
from pytest_ipperf.core.portable.errors import LabError

_BLOCK_BYTES = 65536
_LAST_S = 0.001


class StreamSender(Streams):
    """Sender whose writes have the size of the spec's payload, and all the same random bytes."""

    def __init__(self, socks: Sequence[socket.socket], peer: str, spec: FlowSpec) -> None:
        super().__init__(socks, peer, f"{peer} took nothing", spec.deadline_s)
        self._spec = spec
        self._over = False
        block = random.Random(spec.ident).randbytes(min(spec.payload_bytes, _BLOCK_BYTES))  # noqa: S311 - no secret
        content = (block * (spec.payload_bytes // len(block) + 1))[: spec.payload_bytes]
        self._writers = Writers(str(spec.factors.get("sending", WRITE)), content)
        self._writes = {sock: self._writers.writer(sock) for sock in socks}

    def close(self) -> None:
        """End all threads and sockets, and release the content."""
        super().close()
        self._writers.close()

    def run(self, alive: Callable[[], None]) -> FlowReport:
        """Send; return the facts of `TcpInfoSampler`, `send_buffer_bytes` and, of a complete run, `sender_cpu_s`."""
        sampler = TcpInfoSampler(self.socks)
        try:
            for at_s, _, counts in self.watch(self._spec.warmup_s, self._spec.run_s, alive):
                sampler.sample(at_s, counts=counts)
            self._wait_end(alive)
        except LabError:
            # A busy host may learn of the end only after the receiver has stopped waiting and gone.
            if not self._has_ended():
                raise
        buffer_bytes = effective_bytes(self.socks, socket.SO_SNDBUF)
        drained = self._drain()
        sampler.sample(time.perf_counter() - self._began, counts=False)
        facts = sampler.facts() | {"send_buffer_bytes": float(buffer_bytes)}
        if self.wall_s:
            facts["sender_cpu_s"] = self.cpu_s
        detail: dict[str, object] = sampler.detail() | {"drained": drained}
        return FlowReport(
            facts=facts,
            detail={"sender": detail},
            notes=[*self.bounds("sender"), *self._writers.notes()],
            cpu_s=self.cpu_s,
            wall_s=self.wall_s,
        )

    def _move(self, sock: socket.socket, place: int) -> None:
        counts, send = self.counts, self._writes[sock]
        while not self._stopping:
            try:
                counts[place] += send()
            except (BlockingIOError, InterruptedError):  # the socket had no room before the time-out
                continue

    def _wait_end(self, alive: Callable[[], None]) -> None:
        if not readable(self.socks[:1], self._spec.deadline_s, alive):
            raise LabError(f"{self.peer} did not end its run within {self._spec.deadline_s:g} s of the planned end")
        if not self._has_ended():
            raise LabError(f"{self.peer} {self.ended} before its run was over")

    def _has_ended(self) -> bool:
        """Return whether the receiver has ended the run; its message can be read even after a reset."""
        if not self._over:
            with contextlib.suppress(OSError):
                self._over = self.socks[0].recv(len(OVER)) == OVER
        return self._over

    def _drain(self) -> bool:
        """End the streams; return whether all data has arrived, as the receiver has then ended them too."""
        self._stopping = True
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
        self.join(DRAIN_S)
        end = time.perf_counter() + DRAIN_S
        try:
            for sock in self.socks:
                limit_blocking(sock, max(_LAST_S, end - time.perf_counter()))
                while sock.recv(len(OVER)):
                    pass
        except OSError:
            return False
        return True
