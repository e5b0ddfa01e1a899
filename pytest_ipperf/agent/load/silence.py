"""Progress messages of a long call, and the quiet period of a measurement, in which none is sent."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_ipperf.agent.sockets.control_connection import ControlConnection

PROGRESS = ("alive",)
"""Keep-alive message of a long call, by whose absence a hanging agent is noticed early."""
PROGRESS_S, FAR_PROGRESS_S = 1.0, 5.0
"""Seconds between two keep-alives, over a pipe and over a network."""


class ProgressReporter:
    """Sender of keep-alives during one call, whose handler says when a measurement starts and ends."""

    control: int | None = None
    """Segments of the control connection in the measured seconds; None if they are not counted, or there is none."""

    def __init__(self, send: Callable[[object], None] = lambda _: None, every_s: float = PROGRESS_S) -> None:
        self._send = send
        self._every_s = every_s
        self._due = time.monotonic() + every_s

    def measurement_started(self) -> None:
        """Note that a measurement starts."""

    def measurement_paused(self) -> None:
        """Note a pause between two measurements that is too short to send anything."""

    def measurement_ended(self) -> None:
        """Note that a measurement ended, and send a keep-alive if one is due."""
        self.report_progress()

    def report_progress(self) -> None:
        """Send a keep-alive if one is due, also during a measurement."""
        if self._is_due():
            self._send(PROGRESS)

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + self._every_s
        return True


class QuietReporter(ProgressReporter):
    """Reporter that sends nothing during a measurement, and counts the control connection's segments to prove it."""

    def __init__(self, send: Callable[[object], None], control: ControlConnection) -> None:
        super().__init__(send, FAR_PROGRESS_S)
        self._connection = control
        self._before: int | None = None
        control.settle()  # wait for the call itself, and for earlier calls of other hosts
        self.control = None if control.packets() is None else 0

    def measurement_started(self) -> None:
        """Start counting segments."""
        self._before = self._connection.packets()

    def measurement_paused(self) -> None:
        """Stop counting segments."""
        now = self._connection.packets()
        counted = None not in (self.control, self._before, now)
        self.control = (self.control or 0) + (now or 0) - (self._before or 0) if counted else None

    def measurement_ended(self) -> None:
        """Stop counting segments; if a keep-alive is due, send it and wait until it has passed."""
        self.measurement_paused()
        if self._is_due():
            self._send(PROGRESS)
            self._connection.settle()

    def report_progress(self) -> None:
        """Send nothing, as it would travel together with the measured traffic."""
