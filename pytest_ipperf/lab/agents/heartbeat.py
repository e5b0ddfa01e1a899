"""The pulse: word to agents on other machines that their controller lives, and none of it while anything is measured.

What runs on a host when its controller vanishes without a word (its power, or the network to it, fails) ends by itself,
and gives the host back, when it has heard nothing for the length of its leash. Each word tells how long that is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

LEASH_S = 900.0
"""How long a host without a word is nobody else's, beside the silence that was announced."""
_EVERY_S = 60.0

Speaker = Callable[[float], None]
"""Says that the next word comes within so many seconds; it must not raise."""


class Pulse:
    """Sent to all who `join`, until they `leave`, by a thread that lives as long as any are there."""

    def __init__(self, every_s: float = _EVERY_S) -> None:
        self._every_s = every_s
        self._speakers: set[Speaker] = set()
        self._changed = threading.Condition()
        self._silences: list[float] = []
        self._last_at = 0.0
        self._thread: threading.Thread | None = None

    def join(self, speak: Speaker) -> None:
        """It is called from now on."""
        with self._changed:
            self._speakers.add(speak)
            if self._thread is None:
                self._last_at = time.monotonic()
                self._thread = threading.Thread(target=self._beat, daemon=True)
                self._thread.start()

    def leave(self, speak: Speaker) -> None:
        """It is not called any more, but for a word that is on its way; to leave twice is no error."""
        with self._changed:
            self._speakers.discard(speak)
            self._changed.notify_all()

    @contextlib.contextmanager
    def silence(self, longest_s: float = 0.0) -> Iterator[None]:
        """While something is measured, of which a part between two lulls takes about that long at most.

        Of what takes somewhat longer the leash is long enough.
        """
        with self._changed:
            self._silences.append(longest_s)
        if longest_s > self._every_s:
            self._speak()
        try:
            yield
        finally:
            with self._changed:
                self._silences.remove(longest_s)
                self._changed.notify_all()

    def lull(self) -> None:
        """An agent has spoken in the midst of a run, so for a moment nothing is measured."""
        if time.monotonic() - self._last_at > self._every_s:
            self._speak()

    def _beat(self) -> None:
        while self._due():
            self._speak()

    def _due(self) -> bool:
        """Waits until a word is; false when there is nobody left to hear it, and this thread ends."""
        with self._changed:
            while self._speakers:
                wait_s = self._last_at + self._every_s - time.monotonic()
                if wait_s <= 0 and not self._silences:
                    return True
                self._changed.wait(max(wait_s, 0) or None)
            self._thread = None
            return False

    def _speak(self) -> None:
        """Holds nothing meanwhile: a line that takes no more makes its speaker wait, and nobody else."""
        with self._changed:
            self._last_at = time.monotonic()
            speakers, leash_s = list(self._speakers), LEASH_S + max(self._silences, default=0.0)
        for speak in speakers:
            speak(leash_s)


PULSE = Pulse()
"""That of this process."""
