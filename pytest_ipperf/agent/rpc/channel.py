"""Agent's end of the RPC channel: replies, keep-alives, and the watchdog of a channel over a network.

A channel to a controller of this machine is a pipe, whose closing is always noticed. A channel over a network disturbs
measurements there, and may break without either end noticing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread

from pytest_ipperf.agent.load.silence import PROGRESS_S, ProgressReporter, QuietReporter
from pytest_ipperf.agent.sockets.control_connection import ControlConnection

HEARTBEAT = "heartbeat"
"""Message of a controller that has no call, with the seconds until its watchdog expires: `("heartbeat", 900.0)`.

An agent that receives none in that time assumes that no call will ever come again.
"""
_CHECKS = 20  # per watchdog time-out


class Channel:
    """Channel to the controller; a pipe, unless `arm_watchdog` says that it is over a network."""

    def __init__(self, send: Callable[[object], None]) -> None:
        self._send = send
        self._control: ControlConnection | None = None
        self._received_at = time.monotonic()
        self._watchdog_timeout_s = 0.0
        self._busy = False

    def arm_watchdog(self, timeout_s: float) -> None:
        """Note that the channel is over a network; exit after `timeout_s` without a heartbeat or a call."""
        self.received(timeout_s)
        if self._control is None:
            self._control = ControlConnection.from_environment()
            Thread(target=self._watchdog, daemon=True).start()

    def received(self, timeout_s: float | None = None) -> None:
        """Note that something came from the controller, and how long it may be silent from now on."""
        if timeout_s is not None:
            self._watchdog_timeout_s = timeout_s
        self._received_at = time.monotonic()

    @contextlib.contextmanager
    def handling_call(self) -> Iterator[None]:
        """Suspend the watchdog while a call is handled."""
        self._busy = True
        try:
            yield
        finally:
            self.received()
            self._busy = False

    def reply(self, result: object) -> None:
        """Reply to the current call in place of its handler, which hangs."""
        self._send(("ok", result))

    def progress_reporter(self) -> ProgressReporter:
        """Return the progress reporter for a call that measures."""
        return ProgressReporter(self._send) if self._control is None else QuietReporter(self._send, self._control)

    @contextlib.contextmanager
    def keeping_alive(self, longest_s: float, give_up: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Send keep-alives during a long call in which nothing is measured, but not for ever; then `give_up`."""
        over, end = Event(), time.monotonic() + longest_s

        def send_keep_alives() -> None:
            if not over.wait(PROGRESS_S):
                reporter = self.progress_reporter()
                while not over.wait(PROGRESS_S) and time.monotonic() < end:
                    reporter.measurement_ended()
                if not over.is_set():
                    give_up()

        thread = Thread(target=send_keep_alives, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watchdog(self) -> None:
        while self._busy or time.monotonic() - self._received_at < self._watchdog_timeout_s:
            time.sleep(self._watchdog_timeout_s / _CHECKS)
        os.kill(os.getpid(), signal.SIGTERM)  # also if an unread reply has filled the channel and blocks
