"""RPC methods that reboot the host and tell whether it was rebooted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from pytest_ipperf.agent.host_state.state_dir import boot_id
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.sockets.ports import is_local
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import program

_REFUSAL_S = 3.0  # a command that may not do it says so by then


class RebootHandlers(Handlers):
    """The command is the host's own; it is started as words, without a shell."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._command: subprocess.Popen[bytes] | None = None

    def boot_id(self) -> str:
        """What the kernel calls the time since the host was started (random(4))."""
        return boot_id()

    def reboot(self, argv: list[str]) -> None:
        """Runs a command that is to end this host, and with it the agent; LabError where it cannot."""
        name, *arguments = argv
        output = self._context.folder / "reboot"
        with output.open("wb") as file:
            try:
                # It outlives the agent, which ends earlier than what it does.
                self._command = subprocess.Popen(
                    [program(name) or name, *arguments],
                    stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise LabError(f"its reboot command {name!r} cannot be started ({error.strerror})") from None
        with contextlib.suppress(subprocess.TimeoutExpired):
            if status := self._command.wait(_REFUSAL_S):
                lines = output.read_text(errors="replace").strip().splitlines() or ["no message"]
                raise LabError(f"its reboot command {name!r} failed: {lines[-1].strip()} (exit status {status})")

    def stay(self) -> None:
        """Ends a command that has not started this host anew, so that it does not at a later time."""
        if self._command is not None and self._command.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._command.pid, signal.SIGKILL)

    def lacking(self, addresses: list[str]) -> list[str]:
        """Those of these addresses that this host does not have, or not yet."""
        return [address for address in addresses if not is_local(address)]


handlers = RebootHandlers
