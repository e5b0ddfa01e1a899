"""The line to the controller, as the agent sees it: signs of life, silence while something is measured, the end.

A line to a controller of this machine is a pipe, whose end is always seen. One that leads over a network disturbs what
is measured there, and may break without anybody being told.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from threading import Thread

from pytest_ipperf.agent.load.silence import FarWatch, Watch
from pytest_ipperf.agent.sockets.control_connection import ControlLine

PULSE = "pulse"
"""Sent by a controller that has no order, with the seconds in which the next word comes: `("pulse", 900.0)`.

So an agent can tell that nobody will ever ask it again.
"""
_LOOKS = 20  # in the length of a leash


class Line:
    """A pipe, until it is said that it is `far`."""

    def __init__(self, say: Callable[[object], None]) -> None:
        self._say = say
        self._control: ControlLine | None = None
        self._heard_at = time.monotonic()
        self._leash_s = 0.0
        self._busy = False

    def is_far(self, leash_s: float) -> None:
        """It leads over a network, and who hears nothing by it for so long, and has no order, ends this process."""
        self._leash_s = leash_s
        if self._control is None:
            self._control = ControlLine.of()
            Thread(target=self._wait_for_end, daemon=True).start()

    def heard(self, leash_s: float | None = None) -> None:
        """The controller lives, and perhaps it will be silent for so long."""
        if leash_s is not None:
            self._leash_s = leash_s
        self._heard_at = time.monotonic()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While an order is carried out, nobody has to say anything."""
        self._busy = True
        try:
            yield
        finally:
            self.heard()
            self._busy = False

    def answer(self, told: object) -> None:
        """Answers the order under way in its place, where it hangs."""
        self._say(("ok", told))

    def watch(self) -> Watch:
        """For an order that measures."""
        return Watch(self._say) if self._control is None else FarWatch(self._say, self._control)

    def _wait_for_end(self) -> None:
        while self._busy or time.monotonic() - self._heard_at < self._leash_s:
            time.sleep(self._leash_s / _LOOKS)
        os.kill(os.getpid(), signal.SIGTERM)  # also where an answer to nobody has filled the line and waits
