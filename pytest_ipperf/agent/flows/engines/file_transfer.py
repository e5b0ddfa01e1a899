"""Transfers of a large file by FTP, back to back, from a server that runs on the far host.

Facts: `seconds`, `payload_bytes` (of all files, whole or not) and `receiver_cpu_s` of the run; `transfers`, those that
ended in it, and `transfer_s`, their mean time; `longest_gap_s`, the longest time in which no byte arrived; by the
counters of the client's interface `interface_bytes`, and `interface_max_bit_s`, the most in a second; `agent_bytes` and
`agent_descriptors` of the client's agent at the end. A transfer that breaks off is a failure; the next one begins.

Samples have a row for each second: since the beginning of the run, the bytes received, and those at the interface.
"""

from __future__ import annotations

import contextlib
import ftplib
import math
import os
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import NamedTuple

from pytest_ipperf.agent.flows.engines.base import NO_BACKGROUND, ServedEngine
from pytest_ipperf.agent.flows.ftp_client import FtpClient
from pytest_ipperf.agent.flows.spec import FlowReport, FlowSpec
from pytest_ipperf.agent.kernel.interface_bytes import interface_bytes
from pytest_ipperf.agent.kernel.resources import resources_of
from pytest_ipperf.agent.sockets.target import failure_kind
from pytest_ipperf.core.portable.errors import LabError

_TICK_S = 0.1
_ROW_S = 1.0
_AGAIN_S = 0.2
_JOIN_S = 10.0
_REPLY_CHARACTERS = 80


class FileTransfer(ServedEngine):
    """Engine whose far end is the FTP server of the epoch."""

    def near(
        self, spec: FlowSpec, alive: Callable[[], None], background: AbstractContextManager[None] = NO_BACKGROUND
    ) -> FlowReport:
        """Log in with a session for each stream, and fetch the file in each again and again."""
        with contextlib.closing(Transfers(spec)) as transfers, background:
            return transfers.run(alive)


class Reading(NamedTuple):
    """Counts at one instant: seconds on the clock of the run, bytes of files, bytes at the interface."""

    at_s: float
    received_bytes: int
    interface_bytes: float


class Transfers:
    """Sessions of a run, each with a thread of its own; use `close` to end them."""

    def __init__(self, spec: FlowSpec) -> None:
        self._spec = spec
        self._streams = [_Stream(spec, user) for user in spec.service.users]

    def run(self, alive: Callable[[], None]) -> FlowReport:
        """Transfer for the warm-up and the run; raise LabError if nothing arrives, or other content than the server's.

        The clock begins with the first byte.
        """
        spec = self._spec
        for stream in self._streams:
            stream.start()
        self._wait_for_data(alive)
        start = time.perf_counter() + spec.warmup_s
        self._sleep(start, alive)
        readings, cpu_s = [self._first_reading()], time.process_time()
        rows = max(1, round(spec.run_s / _ROW_S))
        for row in range(1, rows + 1):  # by absolute times, so that no delay adds up
            self._sleep(readings[0].at_s + spec.run_s * row / rows, alive)
            readings.append(self._reading())
        cpu_s = time.process_time() - cpu_s
        gaps = [stream.end_run() for stream in self._streams]
        return self._report(readings, max(gaps), cpu_s)

    def close(self) -> None:
        """End all sessions."""
        for stream in self._streams:
            stream.stop()
        for stream in self._streams:
            stream.join(_JOIN_S)

    def _wait_for_data(self, alive: Callable[[], None]) -> None:
        end = time.perf_counter() + self._spec.deadline_s
        while not any(stream.received_bytes for stream in self._streams):
            alive()
            self._check()
            if time.perf_counter() > end:
                raise LabError(f"{self._silence()} within {self._spec.deadline_s:g} s")
            time.sleep(_TICK_S / 10)

    def _sleep(self, until: float, alive: Callable[[], None]) -> None:
        """Sleep until that time, and check the streams meanwhile."""
        while (left_s := until - time.perf_counter()) > 0:
            time.sleep(min(left_s, _TICK_S))
            alive()
            self._check()

    def _check(self) -> None:
        now = time.perf_counter()
        for stream in self._streams:
            if stream.trouble is not None:
                raise stream.trouble
        if min(now - stream.last_s for stream in self._streams) > self._spec.deadline_s:
            raise LabError(f"{self._silence()} within {self._spec.deadline_s:g} s")

    def _silence(self) -> str:
        kinds = Counter(kind for stream in self._streams for kind in stream.failed.elements())
        why = f" ({', '.join(kinds)})" if kinds else ""
        return f"no file arrived from the server at {self._spec.address} port {self._spec.service.port}{why}"

    def _first_reading(self) -> Reading:
        """Begin the run; read the interface before the files, where all later readings do so after them.

        However long the machine pauses between the two counts, what the files received in the run has then passed the
        interface in the run, apart from what the sockets held at its beginning.
        """
        count, at_s = self._interface_bytes(), time.perf_counter()
        for stream in self._streams:
            stream.begin_run()
        return Reading(at_s, self._received_bytes(), count)

    def _reading(self) -> Reading:
        received, count = self._received_bytes(), self._interface_bytes()
        return Reading(time.perf_counter(), received, count)

    def _received_bytes(self) -> int:
        return sum(stream.received_bytes for stream in self._streams)

    def _interface_bytes(self) -> float:
        return interface_bytes(self._spec.device).received if self._spec.device else math.nan

    def _report(self, readings: list[Reading], longest_gap_s: float, cpu_s: float) -> FlowReport:
        first, last = readings[0], readings[-1]
        seconds = last.at_s - first.at_s
        rows = array("d")
        for each in readings:
            rows.extend(
                (
                    each.at_s - first.at_s,
                    each.received_bytes - first.received_bytes,
                    each.interface_bytes - first.interface_bytes,
                )
            )
        failed: Counter[str] = Counter()
        for stream in self._streams:
            failed.update(stream.failed)
        took_s = [each for stream in self._streams for each in stream.took_s]
        own = resources_of([os.getpid()])
        facts = {
            "seconds": seconds,
            "payload_bytes": float(last.received_bytes - first.received_bytes),
            "receiver_cpu_s": cpu_s,
            "transfers": float(len(took_s)),
            "longest_gap_s": longest_gap_s,
            "agent_bytes": float(own.memory_bytes),
            "agent_descriptors": float(own.descriptors),
        }
        if took_s:
            facts["transfer_s"] = sum(took_s) / len(took_s)
        if self._spec.device:
            facts["interface_bytes"] = last.interface_bytes - first.interface_bytes
            facts["interface_max_bit_s"] = max(
                8 * (after.interface_bytes - before.interface_bytes) / (after.at_s - before.at_s)
                for before, after in pairwise(readings)
            )
        peers: Counter[str] = Counter()
        for stream in self._streams:
            peers.update(stream.peers)
        return FlowReport(
            samples=rows.tobytes(),
            # Those under way at the end are neither complete nor failed, and were attempted.
            attempted=len(took_s) + failed.total() + len(self._streams),
            failed=dict(failed),
            facts=facts,
            families=sorted({name for stream in self._streams for name in stream.families}),
            peers=dict(peers),
            sources=sorted({name for stream in self._streams for name in stream.sources}),
            cpu_s=cpu_s,
            wall_s=seconds,
        )


class _Stream(threading.Thread):
    """Thread that fetches the file again and again; its counts are written by itself alone.

    `took_s` and `failed` are of the transfers that have ended in the run, `trouble` is the error that ended it.
    """

    def __init__(self, spec: FlowSpec, user: str) -> None:
        super().__init__(daemon=True)
        self._spec, self._user = spec, user
        self._stopping = threading.Event()
        self._client: FtpClient | None = None
        self._gap_s = 0.0
        self.received_bytes = 0
        self.last_s = time.perf_counter()
        self.took_s: list[float] = []
        self.failed: Counter[str] = Counter()
        self.trouble: LabError | None = None
        self.peers: Counter[str] = Counter()
        self.families: set[str] = set()
        self.sources: set[str] = set()

    def begin_run(self) -> None:
        """Count from now on."""
        self.took_s, self.failed, self._gap_s = [], Counter(), 0.0

    def end_run(self) -> float:
        """Return the longest time of the run in which nothing arrived, up to now."""
        return max(self._gap_s, time.perf_counter() - self.last_s)

    def run(self) -> None:
        """Fetch until `stop` is called; also after a failure, but not after other content."""
        try:
            self._fetch_again_and_again()
        except LabError as error:
            self.trouble = error
        finally:
            self._close()

    def _fetch_again_and_again(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._client is None:
                    self._client = FtpClient(self._spec, self._user, self._moved)
                    self._note_path(self._client)
                    continue  # it may have been stopped since
                self.took_s.append(self._client.fetch())
            except (OSError, EOFError, ftplib.Error) as error:
                self._break_off(error)

    def stop(self) -> None:
        """End the session."""
        self._stopping.set()
        if (client := self._client) is not None:
            client.abandon()

    def _moved(self, size: int) -> None:
        now = time.perf_counter()
        self._gap_s = max(self._gap_s, now - self.last_s)
        self.last_s = now
        self.received_bytes += size

    def _note_path(self, client: FtpClient) -> None:
        for sock in client.sockets():
            self.peers[sock.getpeername()[0]] += 1
            self.families.add(sock.family.name)
            self.sources.add(sock.getsockname()[0])

    def _break_off(self, error: Exception) -> None:
        if self._stopping.is_set():
            return
        self.failed[_kind(error)] += 1
        self._close()
        self._stopping.wait(_AGAIN_S)

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.abandon()
            client.close()


def _kind(error: Exception) -> str:
    """Return the kind of failure; a reply without the rest of its text."""
    if isinstance(error, TimeoutError):
        return "transfer timed out"
    if isinstance(error, OSError):
        return f"transfer {failure_kind(error)}"
    if isinstance(error, ftplib.Error):
        return f"reply {str(error)[:_REPLY_CHARACTERS]!r}"
    return "transfer ended early"


engine = FileTransfer()
