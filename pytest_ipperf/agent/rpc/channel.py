"""Agent's end of the RPC channel: replies, keep-alives, and the watchdog of a channel that leads over a network.

A channel to a controller of this machine is a pipe, whose closing is always noticed. One that leads over a network
disturbs what is measured there, and may break without either end noticing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from threading import Thread

from pytest_ipperf.agent.load.silence import ProgressReporter, QuietReporter
from pytest_ipperf.agent.sockets.control_connection import ControlConnection

PULSE = "pulse"
"""Sent by a controller that has no call, with the seconds in which the next word comes: `("pulse", 900.0)`.

So an agent can tell that nobody will ever ask it again.
"""
_CHECKS = 20  # in the length of a leash


class Channel:
    """Channel to the controller; a pipe, unless `is_far` says that it leads over a network."""

    def __init__(self, send: Callable[[object], None]) -> None:
        self._send = send
        self._control: ControlConnection | None = None
        self._received_at = time.monotonic()
        self._leash_s = 0.0
        self._busy = False

    def is_far(self, leash_s: float) -> None:
        """It leads over a network, and who hears nothing by it for so long, and has no call, ends this process."""
        self._leash_s = leash_s
        if self._control is None:
            self._control = ControlConnection.from_environment()
            Thread(target=self._watchdog, daemon=True).start()

    def received(self, leash_s: float | None = None) -> None:
        """Note that something came from the controller, and for how long it may be silent from now on."""
        if leash_s is not None:
            self._leash_s = leash_s
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
        """Reply to the current call in its place, where it hangs."""
        self._send(("ok", result))

    def progress_reporter(self) -> ProgressReporter:
        """Return the progress reporter for a call that measures."""
        return ProgressReporter(self._send) if self._control is None else QuietReporter(self._send, self._control)

    def _watchdog(self) -> None:
        while self._busy or time.monotonic() - self._received_at < self._leash_s:
            time.sleep(self._leash_s / _CHECKS)
        os.kill(os.getpid(), signal.SIGTERM)  # also where an answer to nobody has filled the channel and waits
