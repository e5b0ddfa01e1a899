"""RPC method that shuts the agent down and reports what it could not remove."""

from __future__ import annotations

import os
import signal

from pytest_ipperf.agent.host_state.dirty_marks import mark_leftovers
from pytest_ipperf.agent.host_state.teardown import teardown
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
        # Removing thousands of mailboxes takes long.
        with self._context.channel.keeping_alive(_PATIENCE_S, self._give_up):
            return teardown(self._context.stack)

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
