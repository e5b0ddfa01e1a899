"""RPC methods that reboot the host and show whether it was rebooted."""

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

_REFUSAL_S = 3.0  # a command without the rights to reboot fails within this time


class RebootHandlers(Handlers):
    """Handlers for reboots; the command is the host's own and is started without a shell."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._command: subprocess.Popen[bytes] | None = None

    def boot_id(self) -> str:
        """Return the kernel's identifier of this boot of the host (random(4))."""
        return boot_id()

    def reboot(self, argv: list[str]) -> None:
        """Run a command that reboots this host, and so ends the agent; raise LabError if it cannot."""
        name, *arguments = argv
        output = self._context.folder / "reboot"
        with output.open("wb") as file:
            try:
                # It outlives the agent, which may end before it.
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
        """Kill a command that has not rebooted this host, so that it does not do so later."""
        if self._command is not None and self._command.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._command.pid, signal.SIGKILL)

    def lacking(self, addresses: list[str]) -> list[str]:
        """Return those of these addresses that this host lacks, or lacks yet."""
        return [address for address in addresses if not is_local(address)]


handlers = RebootHandlers
