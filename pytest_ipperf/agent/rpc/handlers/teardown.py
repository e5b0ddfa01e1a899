"""RPC method that shuts the agent down and reports what it could not remove."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from threading import Event, Thread

from pytest_ipperf.agent.host_state.dirty_marks import mark_leftovers
from pytest_ipperf.agent.host_state.teardown import teardown
from pytest_ipperf.agent.load.silence import PROGRESS_S
from pytest_ipperf.agent.rpc.handlers.base import Handlers
from pytest_ipperf.core.portable.errors import LabError

_PATIENCE_S = 300.0  # enough to remove hundreds of thousands of mailboxes
_HANGS_MESSAGE = f"the end of its agent has not come in {_PATIENCE_S:g} s; what that has made may still be there"


class TeardownHandlers(Handlers):
    """Handler of an agent's last call."""

    def shut_down(self) -> list[str]:
        """End and remove everything of this agent; mark the host with a sentence for each leftover, and return them.

        A teardown that hangs is reported as such after some minutes.
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end of the channel must not interrupt the teardown
        with self._keeping_alive():
            return teardown(self._context.stack)

    @contextlib.contextmanager
    def _keeping_alive(self) -> Iterator[None]:
        """Send keep-alives for a limited time, as removing thousands of mailboxes takes long."""
        over, end = Event(), time.monotonic() + _PATIENCE_S

        def send_keep_alives() -> None:
            if not over.wait(PROGRESS_S):
                reporter = self._context.channel.progress_reporter()
                while not over.wait(PROGRESS_S) and time.monotonic() < end:
                    reporter.measurement_ended()
                if not over.is_set():
                    self._give_up()

        thread = Thread(target=send_keep_alives, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _give_up(self) -> None:
        """Mark the host, reply in place of the hanging teardown, and exit; no controller can do that over ssh."""
        sentences = [_HANGS_MESSAGE]
        try:
            mark_leftovers([{"said": _HANGS_MESSAGE}])
        except LabError as error:
            sentences.append(str(error))
        self._context.channel.reply(sentences)
        os._exit(1)


handlers = TeardownHandlers
