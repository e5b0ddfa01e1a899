"""Send heartbeats to the agents on other machines, but none while anything is measured.

What runs on a host when its controller vanishes without a word (its power, or the network to it, fails) ends by itself,
and gives the host back, when it has received nothing for the watchdog time-out. Each heartbeat says how long that is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

WATCHDOG_TIMEOUT_S = 900.0
"""Seconds without a heartbeat after which an agent terminates itself, beside the pause that was announced."""
_EVERY_S = 60.0

Sender = Callable[[float], None]
"""Announce on a channel that the next heartbeat comes within so many seconds; must not raise."""


class Heartbeat:
    """Send heartbeats to all that were added, from a thread that lives as long as there are any."""

    def __init__(self, every_s: float = _EVERY_S) -> None:
        self._every_s = every_s
        self._senders: set[Sender] = set()
        self._changed = threading.Condition()
        self._pauses: list[float] = []
        self._last_at = 0.0
        self._thread: threading.Thread | None = None

    def add(self, send: Sender) -> None:
        """Call `send` from now on."""
        with self._changed:
            self._senders.add(send)
            if self._thread is None:
                self._last_at = time.monotonic()
                self._thread = threading.Thread(target=self._beat, daemon=True)
                self._thread.start()

    def remove(self, send: Sender) -> None:
        """Do not call `send` any more, but for a heartbeat that is on its way; to remove it twice is no error."""
        with self._changed:
            self._senders.discard(send)
            self._changed.notify_all()

    @contextlib.contextmanager
    def pause(self, longest_s: float = 0.0) -> Iterator[None]:
        """Send none while something is measured, of which the part between two `allow_one` takes that long at most.

        Of what takes somewhat longer the watchdog time-out is long enough.
        """
        with self._changed:
            self._pauses.append(longest_s)
        if longest_s > self._every_s:
            self._send()
        try:
            yield
        finally:
            with self._changed:
                self._pauses.remove(longest_s)
                self._changed.notify_all()

    def allow_one(self) -> None:
        """Send a heartbeat if one is due: an agent has replied during a run, so nothing is being measured."""
        if time.monotonic() - self._last_at > self._every_s:
            self._send()

    def _beat(self) -> None:
        while self._due():
            self._send()

    def _due(self) -> bool:
        """Wait until a heartbeat is due; false when there is nobody left to send it to, and this thread ends."""
        with self._changed:
            while self._senders:
                wait_s = self._last_at + self._every_s - time.monotonic()
                if wait_s <= 0 and not self._pauses:
                    return True
                self._changed.wait(max(wait_s, 0) or None)
            self._thread = None
            return False

    def _send(self) -> None:
        """Call every sender without the lock: a channel that takes no more makes its own sender wait, and no other."""
        with self._changed:
            self._last_at = time.monotonic()
            senders, timeout_s = list(self._senders), WATCHDOG_TIMEOUT_S + max(self._pauses, default=0.0)
        for send in senders:
            send(timeout_s)


HEARTBEAT = Heartbeat()
"""The one of this process."""
