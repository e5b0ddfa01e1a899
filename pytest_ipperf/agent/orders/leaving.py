"""The last order: the end of all that the agent has made, told while somebody listens."""

from __future__ import annotations

import signal

from pytest_ipperf.agent.leaving import undone
from pytest_ipperf.agent.orders.base import Part


class Leaving(Part):
    """After it there are no others."""

    def leave(self) -> list[str]:
        """Ends and removes all that is here of this agent; a sentence for what stays, with which the host is marked."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end of the line must not cut it short
        return undone(self._here.stack)


part = Leaving
