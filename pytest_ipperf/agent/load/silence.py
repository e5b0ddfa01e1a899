"""Progress messages of a long request, and the quiet period in which none is sent because something is measured."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_ipperf.agent.sockets.control_connection import ControlLine

ALIVE = ("alive",)
"""Sent in the midst of a long order, so that an agent that hangs is not waited for as long as the order may take."""
SIGN_S, FAR_SIGN_S = 1.0, 5.0
"""How often there is a sign of life, at a pipe and over a network."""


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
