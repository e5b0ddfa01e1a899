"""RPC methods that capture the first packets of a run."""

from __future__ import annotations

import contextlib

from pytest_ipperf.agent.paths.capture import Capture
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers


class CaptureHandlers(Handlers):
    """One at a time."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._captures = context.stack.enter_context(contextlib.ExitStack())

    def capture_begin(self, device: str, packets: int) -> bool:
        """Keeps the first packets that pass a device from now on; false where this user may not see them."""
        self._captures.close()
        with contextlib.suppress(PermissionError):
            self._capture = Capture(device, packets)
            self._captures.callback(self._capture.close)
            return True
        return False

    def capture_end(self) -> bytes:
        """What has been kept, as a pcap file."""
        kept = self._capture.pcap()
        self._captures.close()
        return kept


handlers = CaptureHandlers
