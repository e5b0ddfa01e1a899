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

from pytest_ipperf.agent.sockets.control_connection import ControlLine

ALIVE = ("alive",)
"""Sent in the midst of a long order, so that an agent that hangs is not waited for as long as the order may take."""
PULSE = "pulse"
"""Sent by a controller that has no order, with the seconds in which the next word comes: `("pulse", 900.0)`.

So an agent can tell that nobody will ever ask it again.
"""
SIGN_S, FAR_SIGN_S = 1.0, 5.0
"""How often there is a sign of life, at a pipe and over a network."""
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


class Watch:
    """Over the measured seconds of one order, which lie between `began` and `ended`."""

    control: int | None = None
    """Segments of the control connection in the measured seconds; None where they are not counted, or there is none."""

    def __init__(self, say: Callable[[object], None] = lambda _: None, every_s: float = SIGN_S) -> None:
        self._say = say
        self._every_s = every_s
        self._due = time.monotonic() + every_s

    def began(self) -> None:
        """From now on figures are taken."""

    def paused(self) -> None:
        """None are, until they are again, which is so soon that nothing may be said."""

    def ended(self) -> None:
        """None are, until they are again: time for a sign of life, unless the last one is not long ago."""
        self.alive()

    def alive(self) -> None:
        """The same in the midst of measured seconds."""
        if self._is_due():
            self._say(ALIVE)

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + self._every_s
        return True


class FarWatch(Watch):
    """Over a network: silence in the measured seconds, of which the kernel's counts are the proof."""

    def __init__(self, say: Callable[[object], None], control: ControlLine) -> None:
        super().__init__(say, FAR_SIGN_S)
        self._line = control
        self._before: int | None = None
        control.settle()  # the order itself, and what other hosts were asked before it
        self.control = None if control.packets() is None else 0

    def began(self) -> None:
        """Counts from here."""
        self._before = self._line.packets()

    def paused(self) -> None:
        """Counts to here."""
        now = self._line.packets()
        counted = None not in (self.control, self._before, now)
        self.control = (self.control or 0) + (now or 0) - (self._before or 0) if counted else None

    def ended(self) -> None:
        """Counts to here, and gives a sign of life and time for it to pass, if it is due."""
        self.paused()
        if self._is_due():
            self._say(ALIVE)
            self._line.settle()

    def alive(self) -> None:
        """Nothing, as it would be on its way with what is measured."""
