"""Send heartbeats to the agents on other machines, but none while anything is measured.

If a controller vanishes without a message (its power or its network fails), its agents end themselves and release the
host once they have received nothing for the watchdog time-out. Each heartbeat states how long that is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

WATCHDOG_TIMEOUT_S = 900.0
"""Seconds without a heartbeat after which an agent ends itself, in addition to an announced pause."""
_EVERY_S = 60.0

Sender = Callable[[float], None]
"""Function that announces on a channel that the next heartbeat comes within so many seconds; it must not raise."""


class Heartbeat:
    """Sends heartbeats by all added senders, from a thread that lives as long as there are any."""

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
        """Stop calling `send`, except for a heartbeat under way; removing it twice is no error."""
        with self._changed:
            self._senders.discard(send)
            self._changed.notify_all()

    @contextlib.contextmanager
    def pause(self, longest_s: float = 0.0) -> Iterator[None]:
        """Send none while something is measured; `longest_s` is the longest time between two calls of `allow_one`.

        A measurement that takes somewhat longer is covered by the watchdog time-out.
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
        """Wait until a heartbeat is due; return False if no sender is left, so that this thread ends."""
        with self._changed:
            while self._senders:
                wait_s = self._last_at + self._every_s - time.monotonic()
                if wait_s <= 0 and not self._pauses:
                    return True
                self._changed.wait(max(wait_s, 0) or None)
            self._thread = None
            return False

    def _send(self) -> None:
        """Call every sender without the lock, so that a blocked channel delays only its own sender."""
        with self._changed:
            self._last_at = time.monotonic()
            senders, timeout_s = list(self._senders), WATCHDOG_TIMEOUT_S + max(self._pauses, default=0.0)
        for send in senders:
            send(timeout_s)


HEARTBEAT = Heartbeat()
"""The instance of this process."""
