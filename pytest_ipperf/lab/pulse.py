"""The pulse: word to agents on other machines that their controller lives, and none of it while anything is measured.

What runs on a host when its controller vanishes without a word (its power, or the network to it, fails) ends by itself,
and gives the host back, when it has heard nothing for the length of its leash.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

LEASH_S = 900.0
"""Longer than any time without an order or a pulse, as runs are; a host is nobody else's for so long at most."""
_EVERY_S = 60.0


class Pulse:
    """Sent to all who `join`, until they `leave`, by a thread that lives as long as any are there."""

    def __init__(self, every_s: float = _EVERY_S) -> None:
        self._every_s = every_s
        self._speakers: set[Callable[[], None]] = set()
        self._changed = threading.Condition()
        self._silences = 0
        self._last_at = 0.0
        self._thread: threading.Thread | None = None

    def join(self, speak: Callable[[], None]) -> None:
        """It is called from now on; it must neither wait nor raise."""
        with self._changed:
            self._speakers.add(speak)
            if self._thread is None:
                self._last_at = time.monotonic()
                self._thread = threading.Thread(target=self._beat, daemon=True)
                self._thread.start()

    def leave(self, speak: Callable[[], None]) -> None:
        """It is not called any more; to leave twice is no error."""
        with self._changed:
            self._speakers.discard(speak)
            self._changed.notify_all()

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """While something is measured."""
        with self._changed:
            self._silences += 1
        try:
            yield
        finally:
            with self._changed:
                self._silences -= 1
                self._changed.notify_all()

    def lull(self) -> None:
        """An agent has spoken in the midst of a run, so for a moment nothing is measured."""
        with self._changed:
            if time.monotonic() - self._last_at > self._every_s:
                self._speak()

    def _beat(self) -> None:
        with self._changed:
            while self._speakers:
                wait_s = self._last_at + self._every_s - time.monotonic()
                if wait_s > 0 or self._silences:
                    self._changed.wait(max(wait_s, 0) or None)
                else:
                    self._speak()
            self._thread = None

    def _speak(self) -> None:
        self._last_at = time.monotonic()
        for speak in self._speakers:
            speak()


PULSE = Pulse()
"""That of this process."""
