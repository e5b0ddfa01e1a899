"""The last order: the end of all that the agent has made, told while somebody listens."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from threading import Event, Thread

from pytest_ipperf.agent.leaving import undone
from pytest_ipperf.agent.line import SIGN_S
from pytest_ipperf.agent.orders.base import Part


class Leaving(Part):
    """After it there are no others."""

    def leave(self) -> list[str]:
        """Ends and removes all that is here of this agent; a sentence for what stays, with which the host is marked."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end of the line must not cut it short
        with self._living():
            return undone(self._here.stack)

    @contextlib.contextmanager
    def _living(self) -> Iterator[None]:
        """Gives signs of life, as mailboxes by the thousand take their time."""
        over = Event()

        def live() -> None:
            if not over.wait(SIGN_S):
                watch = self._here.line.watch()
                while not over.wait(SIGN_S):
                    watch.ended()

        thread = Thread(target=live, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


part = Leaving
