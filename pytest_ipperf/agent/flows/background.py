"""Background traffic: a second flow between the same hosts while a flow is measured.

Each of its ends is a process of its own, so that its work does not delay the measured flow's. The near end is up for
`LEAD_S` before the measured flow begins its warm-up, and until after that flow's run. How many bytes it moved in the
time of that run is the proof that there was a load.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.spec import Background, FarListening, FlowReport
from pytest_ipperf.agent.kernel.child_process import ChildProcess
from pytest_ipperf.agent.kernel.interface_bytes import all_received_bytes
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.load import LEAD_S, LONGEST_QUEUE_S, SILENCE_S
from pytest_ipperf.core.portable.traffic.model import DOWN, UP

MOVED = "moved_bytes"
"""Fact of each end's report: bytes of payload that arrived there in the time of the measured run."""
PACKETS = "moved_packets"
"""Fact of each end's report: the packets of those bytes; 0 of a stream."""
PLANNED = "planned_bytes"
"""Fact of the ends of a traffic model: bytes of payload that its schedule has there in that time."""
MEASURED = "measured_s"
"""Fact of each end's report: that time in s."""
_NAME = "the background traffic"
_TICK_S = 0.1
_PATIENCE_S = 60.0
_FEW = 4000
"""Bytes of which fewer arrive in `SILENCE_S` once all queues are empty: half of what a lab's slowest link carries."""


class NearBackground:
    """Near end, as a context in which the load is up; `report` is there after it."""

    def __init__(self, load: Background, alive: Callable[[], None]) -> None:
        self._load, self._alive = load, alive
        self._child: ChildProcess | None = None
        self.report: FlowReport | None = None

    def __enter__(self) -> None:
        """Start the load, and return once it has been up for a while; raise LabError if it ends before that."""
        self._child = ChildProcess(_NAME, partial(_near, load=self._load))
        end = time.monotonic() + LEAD_S
        while (left_s := end - time.monotonic()) > 0:
            self._alive()
            if self._child.pipe.poll(min(_TICK_S, left_s)):
                _received(self._child)
                raise LabError(f"{_NAME} ended before the flow that is measured began")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait for the end of the load; kill it if the measured flow is in trouble."""
        child, self._child = self._child, None
        if child is None:
            return
        try:
            if error is None:
                self.report = self._ended(child)
        finally:
            child.kill()

    def _ended(self, child: ChildProcess) -> FlowReport:
        end = time.monotonic() + self._load.flow.run_s + self._load.flow.deadline_s + _PATIENCE_S
        while not child.pipe.poll(_TICK_S):
            self._alive()
            if time.monotonic() > end:
                raise LabError(f"{_NAME} has not ended in time")
        return _received(child)


class FarBackground:
    """Far end, which listens from its construction on."""

    def __init__(self, load: Background) -> None:
        self._child = ChildProcess(_NAME, partial(_far, load=load))
        try:
            self.listening: FarListening = _unpacked(self._child.receive())
        except BaseException:
            self._child.kill()
            raise

    def finish(self, near: FlowReport) -> FlowReport:
        """End the load that the near end has reported; return this end's report."""
        self._child.send(near)
        if not self._child.pipe.poll(_PATIENCE_S):
            raise LabError(f"the far end of {_NAME} has not ended in time")
        return _received(self._child)

    def close(self) -> None:
        """End the process, finished or not."""
        self._child.kill()


@dataclasses.dataclass(frozen=True, slots=True)
class _Trouble:
    """Message in place of a report: the sentence of a LabError."""

    sentence: str


def _near(pipe: Connection, *, load: Background) -> None:
    try:
        report = ENGINES[load.flow.engine].near(load.flow, _nothing)
        pipe.send(_slim(load, report, DOWN, silent=_wait_for_silence()))
    except LabError as error:
        pipe.send(_Trouble(str(error)))


def _far(pipe: Connection, *, load: Background) -> None:
    try:
        with contextlib.closing(ENGINES[load.flow.engine].far(load.flow)) as far:
            pipe.send(far.listening)
            report = far.finish(pipe.recv())
            pipe.send(_slim(load, report, UP, silent=_wait_for_silence()))
    except LabError as error:
        pipe.send(_Trouble(str(error)))


def _wait_for_silence() -> bool:
    """Wait until hardly anything arrives at this host; return whether that came true.

    Queues on the path may hold seconds of the load, which would meet the next run.
    """
    end, before = time.monotonic() + LONGEST_QUEUE_S, all_received_bytes()
    while time.monotonic() < end:
        time.sleep(SILENCE_S)
        now = all_received_bytes()
        if now - before <= _FEW:
            return True
        before = now
    return False


def _slim(load: Background, report: FlowReport, direction: str, *, silent: bool) -> FlowReport:
    """Return the report with what arrived in its direction in the time of the measured run, in place of its samples."""
    from_s, until_s = load.measured_s
    found = ENGINES[load.flow.engine].delivered(load.flow, report, direction, load.measured_s)
    counted = {MOVED: found.payload_bytes, PACKETS: found.packets, MEASURED: until_s - from_s}
    if found.planned_bytes is not None:
        counted[PLANNED] = found.planned_bytes
    notes = report.notes if silent else [*report.notes, f"data still came {LONGEST_QUEUE_S:g} s after its end"]
    return dataclasses.replace(report, samples=b"", facts={**report.facts, **counted}, notes=notes)


def _received(child: ChildProcess) -> FlowReport:
    found: FlowReport = _unpacked(child.receive())
    return found


def _unpacked(message: Any) -> Any:
    if isinstance(message, _Trouble):
        raise LabError(f"{_NAME}: {message.sentence}")
    return message


def _nothing() -> None:
    """Accept that the load is alive; its pipe says if it is not."""
